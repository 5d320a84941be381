//! What an agent is made of, as it is stored, and making one of it.
//!
//! Invariant: a key is never stored. Whoever makes the agent, maybe after a crash and in another process, takes it from its own
//! environment.

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
use provost_engine::{AgentConfig, AgentProfile, ask_user, child_tools};
use provost_model::ChatModel;
use provost_tool::Tool;
use serde::{Deserialize, Serialize};

pub use self::factory::AgentFactory;
pub use self::resolve::HostDefaults;
use crate::error::HostError;
use crate::model::{Choice, ModelRequest};
use crate::tool::{self, AgentRef, Files, Shell, ToolProvider, ToolSelection};

/// The name under which agents speak in events.
pub const AGENT: &str = "provost";

/// How the names of stored agents begin; what follows tells apart those that are made differently.
pub const NAME_PREFIX: &str = "terminal-";

/// Digits of a name behind the prefix.
const NAME_DIGITS: usize = 16;

/// The key by which a stored agent says that it was declared: without its declaration it must not run.
pub const DECLARED: &str = "declared";

/// Where a stored agent has what the engine does not know.
const MORE: &str = "terminal";

/// What the agent is told unless somebody says otherwise.
const INSTRUCTIONS: &str = "You are a helpful assistant in a terminal. Answer briefly, in Markdown. \
     Use your tools when they help; if a call is not approved, say so and go on without it.";

/// What an agent is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentSpec {
    /// `provider/model`, or `demo`; nothing leaves the choice to whoever makes the agent.
    #[serde(skip)]
    pub model: String,
    /// The instructions.
    #[serde(skip)]
    system: String,
    /// True if a person can be asked.
    #[serde(skip)]
    is_interactive: bool,
    /// Where the provider is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base_url: Option<String>,
    /// The variable that holds the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    api_key_env: Option<String>,
    /// False if the model gets no tools.
    tools: bool,
    /// True if it may ask a person in words and wait for the answer.
    #[serde(skip)]
    ask_user: bool,
    /// True if it may start other tasks and wait for them.
    #[serde(skip)]
    children: bool,
    /// Where notes are written.
    notes_dir: PathBuf,
    /// The files that it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    files: Option<Files>,
    /// The command lines that it may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shell: Option<Shell>,
    /// Where the tools, the rules and the roles are declared that it was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resources: Option<PathBuf>,
    /// The declared tools that it asks for; a terminal's agent gets all.
    #[serde(skip)]
    declared: Option<Vec<String>>,
    /// Rounds of tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_turns: Option<u32>,
    /// Milliseconds for one turn of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
}

/// What a caller in this process asks of an agent.
#[derive(Debug, Clone, Default)]
pub struct AgentOptions {
    /// The instructions; this crate has some of its own.
    pub system: Option<String>,
    /// True if a person can be asked.
    pub is_interactive: bool,
    /// The variable that holds the key.
    pub api_key_env: Option<String>,
    /// True if the model gets no tools.
    pub no_tools: bool,
    /// Where notes are written.
    pub notes_dir: PathBuf,
    /// The files that it may use.
    pub files: Option<Files>,
    /// The command lines that it may run.
    pub shell: Option<Shell>,
    /// Where its tools, rules and roles are declared.
    pub resources: Option<PathBuf>,
    /// Rounds of tool calls.
    pub max_turns: Option<u32>,
    /// Time for one turn of the conversation.
    pub timeout: Option<Duration>,
}

impl AgentSpec {
    /// What the options ask for, with the model that was chosen.
    pub fn new(options: AgentOptions, choice: &Choice) -> Result<Self, HostError> {
        // Another process that goes on with a run may be somewhere else.
        let notes_dir = std::path::absolute(&options.notes_dir)
            .map_err(|error| HostError::io("the notes directory", &error))?;
        let resources = options.resources.as_ref().map(std::path::absolute).transpose();
        let resources = resources.map_err(|error| HostError::io("the resources", &error))?;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let spec = Self {
            model: String::new(),
            system: options.system.unwrap_or_else(|| INSTRUCTIONS.to_owned()),
            is_interactive: options.is_interactive,
            base_url: None,
            api_key_env: None,
            tools: !options.no_tools,
            ask_user: false,
            children: false,
            notes_dir,
            files: options.files,
            shell: options.shell,
            resources,
            declared: None,
            max_turns: options.max_turns,
            timeout_ms: options.timeout.map(millis),
        };
        Ok(spec.with_model(choice, options.api_key_env))
    }

    /// The same with another model.
    #[must_use]
    pub fn with_model(mut self, choice: &Choice, api_key_env: Option<String>) -> Self {
        self.model = choice.full_name();
        self.base_url = choice.base_url.clone();
        self.api_key_env = api_key_env;
        self
    }

    /// How it is stored.
    pub fn config(&self) -> Result<AgentConfig, HostError> {
        let defect = |error: serde_json::Error| HostError::new(ErrorKind::Bug, error.to_string());
        // A person who waits decides whether to try again; a crash is not a try.
        let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
        Ok(AgentConfig {
            model: Some(self.model.clone()),
            system_prompt: Some(self.system.clone()),
            policy: ExecutionPolicyPatch {
                interactive: Some(self.is_interactive),
                retry: Some(retry),
                ..ExecutionPolicyPatch::default()
            },
            more: [(MORE.to_owned(), serde_json::to_value(self).map_err(defect)?)]
                .into_iter()
                .collect(),
            ..AgentConfig::default()
        })
    }

    /// The name of the stored agent: the same for the same spec, so that no other process can change it meanwhile.
    pub fn name(config: &AgentConfig) -> Result<String, HostError> {
        let hash =
            body_hash(config).map_err(|error| HostError::new(ErrorKind::Bug, error.to_string()))?;
        let digits: String =
            hash.chars().filter(char::is_ascii_hexdigit).take(NAME_DIGITS).collect();
        Ok(format!("{NAME_PREFIX}{digits}"))
    }

    fn read(profile: &AgentProfile) -> Result<Self, String> {
        let config = &profile.config;
        let stored = config.more.get(MORE).ok_or("it was not made by a terminal")?;
        let spec = Self::deserialize(stored).map_err(|error| error.to_string())?;
        Ok(Self {
            model: config.model.clone().ok_or("it names no model")?,
            system: config.system_prompt.clone().unwrap_or_default(),
            ..spec
        })
    }

    /// The model that it asks for.
    pub fn model_request(&self) -> ModelRequest {
        ModelRequest {
            model: Some(self.model.clone()).filter(|model| !model.is_empty()),
            base_url: self.base_url.clone(),
            api_key_env: self.api_key_env.clone(),
        }
    }

    /// Its command lines.
    pub fn shell(&self) -> Option<&Shell> {
        self.shell.as_ref()
    }

    /// Its tools.
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
        let system = self.system.clone();
        let builder = Agent::builder(agent.name, model)
            .tools(self.tools(provider)?)
            .limits(limits)
            .context(Truncate::new())
            // What a person writes is text and never a template.
            .instructions_from(move |_| {
                let system = system.clone();
                async move { Ok(system) }
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

    /// Refuses to build an agent without the manifests that it was made with.
    fn require_same_manifests(&self, provider: &ToolProvider) -> Result<(), String> {
        let here = provider.declared.as_ref().map(|declared| &declared.path);
        match &self.resources {
            Some(path) if here != Some(path) => Err(format!(
                "it was made with the tools and rules of {}: go on with --resources {0}",
                path.display()
            )),
            _ => Ok(()),
        }
    }
}
