//! Agents: who does the work, and how they are configured.

use provost_core::execution_policy::ExecutionPolicyPatch;
use provost_core::scheduling::InputQueueOverride;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// How an agent is configured. Keys that Provost does not know belong to whoever builds the agent.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentConfig {
    /// What carries it out; `provost` if nothing is said.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner: Option<String>,
    /// Whose models, if the name of the model does not say so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// The model, such as `anthropic/claude-sonnet-4-5`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The instructions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// The folder it works in, below the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_dir: Option<String>,
    /// What its runs may do, as far as it differs from the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<ExecutionPolicyPatch>,
    /// How messages wait for its tasks, as far as it differs from the default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<InputQueueOverride>,
    /// Everything else.
    #[serde(flatten)]
    pub more: Map<String, Value>,
}

/// An agent to make.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NewAgent {
    /// Its name, unique in the namespace.
    pub name: String,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// How it is configured; what is not said is the default.
    #[serde(default)]
    pub config: AgentConfig,
}

/// What changes about an agent. Keys of `config` are merged; a key with `null` is removed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AgentChange {
    /// A new name for people; an empty one takes it away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// What changes in the configuration.
    #[serde(skip_serializing_if = "Map::is_empty")]
    pub config: Map<String, Value>,
}

/// An agent as it stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Agent {
    /// Its name.
    pub name: String,
    /// Rises with each change; the ETag.
    pub revision: u64,
    /// A name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub title: Option<String>,
    /// How it is configured.
    pub config: AgentConfig,
}
