//! The definition of an agent. The database, the API, manifests and the engine use this one form.

mod change;
mod shell;
mod stored;
mod timeouts;
mod validate;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

pub use self::shell::{AgentShell, ShellAccess, ShellApproval, ShellSettings, ShellWorkspace};
pub use self::stored::workspace_name;
pub use self::timeouts::AgentTimeouts;
pub use self::validate::check_agent_name;
use super::ResourceError;
use super::text::{invalid_field, namespace, required_name, trimmed_distinct};
use crate::execution_policy::ExecutionPolicyPatch;
use crate::lifecycle::RequestError;
use crate::scheduling::InputQueueOverride;
use crate::text::string_enum::string_enum;

/// The name that stands for all tools or all MCP servers of the namespace.
pub const ALL_TOOLS: &str = "*";

/// Prefix of the names of agents that a terminal defines. Only an operator uses it.
pub const TERMINAL_AGENT_PREFIX: &str = "terminal-";

/// Name of the only supported runner: the agent loop of this program.
pub const DEFAULT_RUNNER: &str = "provost";

/// Default instructions of a new agent.
const SYSTEM_PROMPT: &str = "You are a helpful agent. Complete the requested task with your tools, report what you did, and ask \
     if you cannot continue.";

string_enum! {
    /// Access of an agent to the files of its workspace.
    #[derive(Default)]
    FileAccess, "a file access" {
        /// No access.
        #[default]
        None = "none",
        /// Read, list and search.
        ReadOnly = "ro",
        /// Also write and edit, with approval.
        ReadWrite = "rw",
    }
}

/// Server of a model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ModelEndpoint {
    /// Base URL of the provider. Absent for its default address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub base_url: Option<String>,
    /// Environment variable with the API key. Absent for the variable of the provider.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_key_env: Option<String>,
}

/// Definition of an agent. Absent fields have their default values. The server keeps fields that it does not know.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct AgentSpec {
    /// Runner that executes the agent. The default is `provost`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner: Option<String>,
    /// Provider of the model. Required only if the model name does not contain it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub provider: Option<String>,
    /// Model as `provider/model`, such as `anthropic/claude-sonnet-4-5`. If absent, the server's default model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Server of the model. Only the process that has this server in its configuration runs the agent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<ModelEndpoint>,
    /// System prompt: the instructions of the agent. A manifest may call it `prompt`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub system_prompt: Option<String>,
    /// Working directory of the agent, relative to the workspace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace_dir: Option<String>,
    /// Differences from the default execution policy of runs. A manifest may set `interactive` directly.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub policy: ExecutionPolicyPatch,
    /// Differences from the default input queue of sessions.
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "is_default")]
    pub queue: InputQueueOverride,
    /// Timeouts of runs in the queue, per attempt and without events.
    #[serde(rename = "clocks", deserialize_with = "null_as_default")]
    #[serde(skip_serializing_if = "is_default")]
    pub timeouts: AgentTimeouts,
    /// True if each task waits for an approval before it starts.
    #[serde(skip_serializing_if = "is_default")]
    pub approve_start: bool,
    /// False if the agent has no built-in tools. A manifest may list the declared tools here.
    #[serde(skip_serializing_if = "is_true")]
    pub tools: bool,
    /// Declared tools of the agent. `*` means all tools of the namespace. Policies still decide about each call.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub declared_tools: Vec<String>,
    /// MCP servers whose tools the agent gets. `*` means all servers of the namespace. Only an operator sets them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub mcp_servers: Vec<String>,
    /// Roles of the agent, which grant permissions. Only an operator sets them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub roles: Vec<String>,
    /// Tools that the agent may use if no rule matches. Only an operator sets them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub allowed_tools: Vec<String>,
    /// Access to the files of the workspace, limited by the access of the host.
    #[serde(skip_serializing_if = "is_default")]
    pub files: FileAccess,
    /// Name of the workspace. The host maps it to a directory. If absent, the default workspace of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    /// Shell of the agent. `true` selects the shell of the host.
    #[serde(skip_serializing_if = "is_default")]
    pub shell: AgentShell,
    /// True if the agent can ask the user questions. If absent, exactly if its policy is interactive.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ask_user: Option<bool>,
    /// True if the agent can start child tasks.
    #[serde(skip_serializing_if = "is_default")]
    pub children: bool,
    /// Maximum tool rounds per run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_turns: Option<u32>,
    /// Timeout of a run in milliseconds. A manifest may set a duration as `timeout`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
    /// Hash of the resource set that the agent uses. If absent, a run uses the current set at its submission. Only an
    /// operator sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_set: Option<String>,
    /// All other fields.
    #[serde(flatten)]
    pub extensions: Map<String, Value>,
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_true(value: &bool) -> bool {
    *value
}

/// Reads `null` as the default value.
fn null_as_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

impl Default for AgentSpec {
    fn default() -> Self {
        Self {
            runner: None,
            provider: None,
            model: None,
            endpoint: None,
            system_prompt: None,
            workspace_dir: None,
            policy: ExecutionPolicyPatch::default(),
            queue: InputQueueOverride::default(),
            timeouts: AgentTimeouts::default(),
            approve_start: false,
            tools: true,
            declared_tools: Vec::new(),
            mcp_servers: Vec::new(),
            roles: Vec::new(),
            allowed_tools: Vec::new(),
            files: FileAccess::None,
            workspace: None,
            shell: AgentShell::default(),
            ask_user: None,
            children: false,
            max_turns: None,
            timeout_ms: None,
            resource_set: None,
            extensions: Map::new(),
        }
    }
}

impl AgentSpec {
    /// Returns the default definition of a new agent.
    pub fn default_for(name: &str) -> Self {
        Self::default().or_default_for(name)
    }

    /// Sets the runner, the instructions and the working directory of a new agent if they are absent.
    #[must_use]
    pub fn or_default_for(mut self, name: &str) -> Self {
        self.runner.get_or_insert_with(|| DEFAULT_RUNNER.to_owned());
        self.system_prompt.get_or_insert_with(|| SYSTEM_PROMPT.to_owned());
        self.workspace_dir.get_or_insert_with(|| format!("agents/{name}"));
        self
    }

    /// Returns an error if the definition has a field that only an operator sets, because it grants permissions.
    pub fn require_no_operator_fields(&self) -> Result<(), RequestError> {
        let fields = [
            ("mcp_servers", &self.mcp_servers),
            ("roles", &self.roles),
            ("allowed_tools", &self.allowed_tools),
        ];
        let field = match fields.into_iter().find(|(_, names)| !names.is_empty()) {
            Some((field, _)) => field,
            None if self.resource_set.is_some() => "resource_set",
            None => return Ok(()),
        };
        Err(RequestError::OperatorOnly { what: format!("`{field}`") })
    }
}

/// An agent that a manifest declares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DeclaredAgent {
    /// Name of the agent.
    pub name: String,
    /// Namespace of the agent.
    pub namespace: String,
    /// Display name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub title: String,
    /// Definition of the agent.
    pub spec: AgentSpec,
}

impl DeclaredAgent {
    /// Returns the normal form: trimmed texts, distinct names and a valid definition.
    pub fn normalized(mut self) -> Result<Self, ResourceError> {
        self.name = required_name(&self.name, "give the agent a name")?;
        self.namespace = namespace(&self.namespace);
        let spec = &mut self.spec;
        for names in [
            &mut spec.declared_tools,
            &mut spec.mcp_servers,
            &mut spec.roles,
            &mut spec.allowed_tools,
        ] {
            *names = trimmed_distinct(names);
        }
        if spec.max_turns == Some(0) {
            return Err(invalid_field("max_turns", "it is zero", "use at least 1, or omit it"));
        }
        spec.validate()?;
        Ok(self)
    }
}

#[cfg(test)]
mod tests;
