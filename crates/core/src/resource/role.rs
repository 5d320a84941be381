//! A role: a name for permissions that agents can be given.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::ResourceError;
use super::text::{default_namespace, namespace, required_name, trimmed_distinct};

/// A name for permissions that agents can be given.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentRole {
    /// Its name.
    pub name: String,
    /// Where it counts, and nowhere else.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub description: String,
    /// What it permits, such as `tool:search:invoke` or `capability:network`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<String>,
}

impl AgentRole {
    /// A role of a namespace with permissions.
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

    /// The normal form: trimmed, each permission once whatever its case.
    pub fn normalized(mut self) -> Result<Self, ResourceError> {
        self.name = required_name(&self.name, "give the role a name")?;
        self.namespace = namespace(&self.namespace);
        self.permissions = trimmed_distinct(&self.permissions);
        Ok(self)
    }
}
