//! Roles: named sets of permissions for agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ResourceError;
use super::text::{default_namespace, namespace, required_name, trimmed_distinct};

/// A named set of permissions for agents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentRole {
    /// Name of the role.
    pub name: String,
    /// Namespace of the role.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Purpose of the role.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// Granted permissions, such as `tool:search:invoke` or `capability:network`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<String>,
}

impl AgentRole {
    /// Creates a role.
    pub fn new<P: Into<String>>(
        namespace: impl Into<String>,
        name: impl Into<String>,
        permissions: impl IntoIterator<Item = P>,
    ) -> Self {
        Self {
            name: name.into(),
            namespace: namespace.into(),
            description: String::new(),
            permissions: permissions.into_iter().map(Into::into).collect(),
        }
    }

    /// Returns the normal form: trimmed, without duplicates that differ only in letter case.
    pub fn normalized(mut self) -> Result<Self, ResourceError> {
        self.name = required_name(&self.name, "give the role a name")?;
        self.namespace = namespace(&self.namespace);
        self.permissions = trimmed_distinct(&self.permissions);
        Ok(self)
    }
}
