//! Declared agents.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::{default_namespace, invalid_field, namespace, required_name, trimmed_distinct};
use super::{HumanDuration, ResourceError};

/// The name that stands for all tools of the namespace.
pub const ALL_TOOLS: &str = "*";

/// An agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentResource {
    /// Name of the agent.
    pub name: String,
    /// Namespace of the agent.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Model as `provider/model`. `None` uses the server's default model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Instructions. `None` uses the default instructions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// Declared tools of the agent. `*` means all tools of the namespace. Policies still decide about each call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// MCP servers whose tools the agent gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<String>,
    /// Roles of the agent, which grant permissions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Tools that the agent may use if no rule matches.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// True if an approver can respond. If false, calls that require an approval are denied.
    #[serde(default = "default_true")]
    pub interactive: bool,
    /// Maximum tool rounds per run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// Timeout of one run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<HumanDuration>,
}

fn default_true() -> bool {
    true
}

impl AgentResource {
    /// Returns the normal form: trimmed texts, distinct names and valid limits.
    pub fn normalized(mut self) -> Result<Self, ResourceError> {
        self.name = required_name(&self.name, "give the agent a name")?;
        self.namespace = namespace(&self.namespace);
        for names in
            [&mut self.tools, &mut self.mcp_servers, &mut self.roles, &mut self.allowed_tools]
        {
            *names = trimmed_distinct(names);
        }
        if self.max_turns == Some(0) {
            return Err(invalid_field("max_turns", "it is zero", "use at least 1, or omit it"));
        }
        if self.timeout.is_some_and(|timeout| timeout.0.is_zero()) {
            return Err(invalid_field("timeout", "it is zero", "use at least `1s`, or omit it"));
        }
        Ok(self)
    }
}
