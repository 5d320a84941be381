//! Agents and changes of their definition.

use provost_core::resource::AgentSpec;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// An agent to create.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAgent {
    /// Name of the agent, unique in the namespace.
    pub name: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Definition of the agent. Absent fields have their default values.
    #[serde(default)]
    pub config: AgentSpec,
}

/// A change of an agent. The keys of `config` are merged into the stored configuration; a `null` removes its key.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentChange {
    /// New display name. An empty string removes the display name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Configuration keys to change.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
}

/// An agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agent {
    /// Name of the agent.
    pub name: String,
    /// Revision of the agent. Each change increases it. It is also the `ETag` of the response.
    pub revision: u64,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Definition of the agent.
    pub config: AgentSpec,
}
