//! The definition of an agent as it is stored, and building an agent from it.
//!
//! Invariant: a key is never stored. The process that builds the agent, for example after a crash, reads the key from
//! its own environment.

mod factory;
mod resolve;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use provost_agent::context::Truncate;
use provost_agent::{Agent, BuildError};
use provost_core::execution_policy::ExecutionPolicyPatch;
use provost_core::hash::body_hash;
use provost_core::scheduling::RetryPolicy;
use provost_core::{Env, ErrorKind, Limits};
use provost_engine::{AgentConfig, AgentRevision, ask_user, child_tools};
use provost_model::ChatModel;
use provost_tool::Tool;
use serde::{Deserialize, Serialize};

pub use self::factory::AgentFactory;
pub use self::resolve::HostDefaults;
use crate::error::HostError;
use crate::model::{ModelChoice, ModelRequest};
use crate::tool::{self, AgentRef, Files, Shell, ToolProvider, ToolSelection};

/// Name of local agents in events.
pub const AGENT: &str = "provost";

/// Prefix of the names of stored local agents. A hash of the definition follows.
pub const NAME_PREFIX: &str = "terminal-";

/// Number of hash digits after the prefix.
const NAME_DIGITS: usize = 16;

/// Key in the configuration of agents that a manifest declares. Such an agent does not run without its manifest.
pub const MANAGED_BY_MANIFEST: &str = "declared";

/// Key of the local agent's definition in the stored configuration.
const LOCAL_SPEC_KEY: &str = "terminal";

/// Default system prompt.
const INSTRUCTIONS: &str = "You are a helpful assistant in a terminal. Answer briefly, in Markdown. \
     Use your tools when they help; if a call is not approved, say so and go on without it.";

/// Definition of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// Model as `provider/model` or `demo`. If it is empty, the process that builds the agent selects the model.
    #[serde(skip)]
    pub model: String,
    /// System prompt.
    #[serde(skip)]
    system_prompt: String,
    /// True if a user can decide approvals.
    #[serde(skip)]
    is_interactive: bool,
    /// Base URL of the provider. `None` for its default address.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base_url: Option<String>,
    /// Environment variable with the API key. `None` for the variable of the provider.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    api_key_env: Option<String>,
    /// False if the agent has no tools.
    tools: bool,
    /// True if the agent can ask the user questions.
    #[serde(skip)]
    ask_user: bool,
    /// True if the agent can start child tasks.
    #[serde(skip)]
    children: bool,
    /// Directory of notes.
    notes_dir: PathBuf,
    /// Files that the agent can use. `None` without a workspace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    files: Option<Files>,
    /// Shell of the agent. `None` if the agent has no shell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shell: Option<Shell>,
    /// Path of the manifests that the agent was created with.
    #[serde(rename = "resources", default, skip_serializing_if = "Option::is_none")]
    manifests: Option<PathBuf>,
    /// Names of its declared tools. `None` for all declared tools.
    #[serde(skip)]
    declared: Option<Vec<String>>,
    /// Maximum number of turns. `None` for the default limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_turns: Option<u32>,
    /// Timeout of a run in milliseconds. `None` for the default limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
}

/// Options of a local agent.
#[derive(Debug, Clone, Default)]
pub struct AgentOptions {
    /// System prompt. `None` for the default prompt.
    pub system_prompt: Option<String>,
    /// True if a user can decide approvals.
    pub is_interactive: bool,
    /// Environment variable with the API key. `None` for the variable of the provider.
    pub api_key_env: Option<String>,
    /// True if the agent has no tools.
    pub no_tools: bool,
    /// Directory of notes.
    pub notes_dir: PathBuf,
    /// Files that the agent can use. `None` without a workspace.
    pub files: Option<Files>,
    /// Shell of the agent. `None` if the agent has no shell.
    pub shell: Option<Shell>,
    /// Path of the manifests with its tools, rules and roles.
    pub manifests: Option<PathBuf>,
    /// Maximum number of turns. `None` for the default limit.
    pub max_turns: Option<u32>,
    /// Timeout of a run. `None` for the default limit.
    pub timeout: Option<Duration>,
}

impl AgentSpec {
    /// Creates the definition of an agent with the selected model.
    pub fn new(options: AgentOptions, choice: &ModelChoice) -> Result<Self, HostError> {
        // Another process that resumes a run can have another working directory.
        let notes_dir = std::path::absolute(&options.notes_dir)
            .map_err(|error| HostError::io("the notes directory", &error))?;
        let manifests = options.manifests.as_ref().map(std::path::absolute).transpose();
        let manifests = manifests.map_err(|error| HostError::io("the manifests", &error))?;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let spec = Self {
            model: String::new(),
            system_prompt: options.system_prompt.unwrap_or_else(|| INSTRUCTIONS.to_owned()),
            is_interactive: options.is_interactive,
            base_url: None,
            api_key_env: None,
            tools: !options.no_tools,
            ask_user: false,
            children: false,
            notes_dir,
            files: options.files,
            shell: options.shell,
            manifests,
            declared: None,
            max_turns: options.max_turns,
            timeout_ms: options.timeout.map(millis),
        };
        Ok(spec.with_model(choice, options.api_key_env))
    }

    /// Returns the definition with another model.
    #[must_use]
    pub fn with_model(mut self, choice: &ModelChoice, api_key_env: Option<String>) -> Self {
        self.model = choice.full_name();
        self.base_url = choice.base_url.clone();
        self.api_key_env = api_key_env;
        self
    }

    /// Returns the configuration to store.
    pub fn config(&self) -> Result<AgentConfig, HostError> {
        let defect = |error: serde_json::Error| HostError::new(ErrorKind::Bug, error.to_string());
        // The user decides whether to retry a failed run. Resuming a run after a crash does not count as an attempt.
        let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
        Ok(AgentConfig {
            model: Some(self.model.clone()),
            system_prompt: Some(self.system_prompt.clone()),
            policy: ExecutionPolicyPatch {
                interactive: Some(self.is_interactive),
                retry: Some(retry),
                ..ExecutionPolicyPatch::default()
            },
            more: [(LOCAL_SPEC_KEY.to_owned(), serde_json::to_value(self).map_err(defect)?)]
                .into_iter()
                .collect(),
            ..AgentConfig::default()
        })
    }

    /// Returns the name of the stored agent. The name is a hash of the definition, so no other process can change the
    /// agent.
    pub fn name(config: &AgentConfig) -> Result<String, HostError> {
        let hash =
            body_hash(config).map_err(|error| HostError::new(ErrorKind::Bug, error.to_string()))?;
        let digits: String =
            hash.chars().filter(char::is_ascii_hexdigit).take(NAME_DIGITS).collect();
        Ok(format!("{NAME_PREFIX}{digits}"))
    }

    fn from_profile(profile: &AgentRevision) -> Result<Self, String> {
        let config = &profile.config;
        let stored = config.more.get(LOCAL_SPEC_KEY).ok_or("it is not a local agent")?;
        let spec = Self::deserialize(stored).map_err(|error| error.to_string())?;
        Ok(Self {
            model: config.model.clone().ok_or("it has no model")?,
            system_prompt: config.system_prompt.clone().unwrap_or_default(),
            ..spec
        })
    }

    /// Returns the model that the agent requests.
    pub fn model_request(&self) -> ModelRequest {
        ModelRequest {
            model: Some(self.model.clone()).filter(|model| !model.is_empty()),
            base_url: self.base_url.clone(),
            api_key_env: self.api_key_env.clone(),
        }
    }

    /// Returns the shell of the agent.
    pub fn shell(&self) -> Option<&Shell> {
        self.shell.as_ref()
    }

    /// Builds the built-in tools of the agent.
    pub fn tools(&self, provider: &ToolProvider) -> Result<Vec<Arc<dyn Tool>>, HostError> {
        if !self.tools {
            return Ok(Vec::new());
        }
        let mut tools = tool::builtin_tools(&Env::system(), self.notes_dir.clone())?;
        let defect =
            |error: &dyn std::fmt::Display| HostError::new(ErrorKind::Bug, error.to_string());
        if let Some(files) = &self.files {
            tools.extend(files.tools()?);
        }
        if let Some(shell) = &self.shell {
            tools.extend(shell.tools(self.files.as_ref(), provider.shell_host()?)?);
        }
        if self.ask_user {
            tools.push(Arc::new(ask_user().map_err(|error| defect(&error))?));
        }
        if self.children {
            tools.extend(child_tools().map_err(|error| defect(&error))?);
        }
        Ok(tools)
    }

    fn build(
        &self,
        model: Arc<dyn ChatModel>,
        agent: AgentRef<'_>,
        provider: &ToolProvider,
    ) -> Result<Agent, HostError> {
        let mut limits = Limits::default();
        if let Some(turns) = self.max_turns {
            limits = limits.turns(turns);
        }
        if let Some(timeout) = self.timeout_ms {
            limits = limits.wall(Duration::from_millis(timeout));
        }
        let system_prompt = self.system_prompt.clone();
        let builder = Agent::builder(agent.name, model)
            .tools(self.tools(provider)?)
            .limits(limits)
            .context(Truncate::new())
            // The prompt of a user is plain text and not a template.
            .instructions_from(move |_| {
                let system_prompt = system_prompt.clone();
                async move { Ok(system_prompt) }
            });
        let selection = match (&self.declared, self.tools) {
            (None, true) => ToolSelection::All,
            (None, false) => ToolSelection::Named(&[]),
            (Some(names), _) => ToolSelection::Named(names),
        };
        let has_shell = self.tools && self.shell.is_some();
        let builder = provider.attach(builder, agent, &selection, has_shell)?;
        builder.build().map_err(|error: BuildError| HostError::invalid(error.to_string()))
    }

    /// Returns an error if this process does not use the manifests that the agent was created with.
    fn require_same_manifests(&self, provider: &ToolProvider) -> Result<(), String> {
        let current = provider.declared.as_ref().map(|declared| &declared.path);
        match &self.manifests {
            Some(path) if current != Some(path) => Err(format!(
                "it was created with the tools and rules of {}: continue with --manifests {0}",
                path.display()
            )),
            _ => Ok(()),
        }
    }
}
