//! Agents and their configuration.

use provost_core::execution_policy::ExecutionPolicyPatch;
use provost_core::scheduling::InputQueueOverride;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Configuration of an agent. The server stores keys that it does not know and passes them to the program that builds the
/// agent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentConfig {
    /// Runner that executes the agent. The default is `provost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner: Option<String>,
    /// Provider of the model. Required only if the model name does not contain it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Name of the model, such as `anthropic/claude-sonnet-4-5`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// System prompt: the instructions of the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Working directory of the agent, relative to the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_dir: Option<String>,
    /// Differences from the default execution policy of runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<ExecutionPolicyPatch>,
    /// Differences from the default input queue of sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<InputQueueOverride>,
    /// All other keys.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// An agent to create.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAgent {
    /// Name of the agent, unique in the namespace.
    pub name: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// Configuration of the agent. Absent keys have their default values.
    #[serde(default)]
    pub config: AgentConfig,
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
    /// Configuration of the agent.
    pub config: AgentConfig,
}
