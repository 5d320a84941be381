//! An agent as an operator declares it: what it is told, and what it may use.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::text::{default_namespace, invalid_field, namespace, required_name, trimmed_distinct};
use super::{HumanDuration, ResourceError};

/// The name that stands for every tool of the namespace.
pub const ALL_TOOLS: &str = "*";

/// An agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AgentResource {
    /// Its name.
    pub name: String,
    /// Where it counts, and nowhere else.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// `provider/model`; the server's own if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Its instructions; the usual ones if nothing is said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt: Option<String>,
    /// The declared tools it gets; `*` means all of its namespace. Getting a tool does not permit a call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tools: Vec<String>,
    /// The MCP servers whose tools it gets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<String>,
    /// Its roles: what they permit, it may do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Tools that it may use where no rule speaks about them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// False if nobody can be asked: what needs an approval is then denied.
    #[serde(default = "default_true")]
    pub interactive: bool,
    /// Rounds of tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// How long one run may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<HumanDuration>,
}

fn default_true() -> bool {
    true
}

impl AgentResource {
    /// The normal form: trimmed, each word once, bounds that are some.
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
