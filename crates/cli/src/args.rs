//! Arguments that several commands share, and their conversion to options of the host.

mod container;
mod shell;
mod tools;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};
use provost_core::execution_policy::ExecutionPolicyPatch;
use provost_core::resource::{ALL_TOOLS, AgentShell, AgentSpec, FileAccess, workspace_name};
use provost_core::scheduling::RetryPolicy;
use provost_host::agent::INSTRUCTIONS;
use provost_host::model::ModelRequest;
use provost_host::tool::Files;

pub(crate) use self::container::ContainerArgs;
pub(crate) use self::shell::ShellArgs;
pub(crate) use self::tools::{ToolArgs, ToolNetworkArg};
use crate::command::parse_duration;
use crate::error::CliError;
use crate::remote::ServerArgs;

/// Default directory of the notes that the tool `save_note` writes.
pub(crate) const NOTES_DIR_DEFAULT: &str = "notes";

/// Arguments that select the agent of a conversation, local or on a server.
#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
    /// Agent of the server; default: the default agent of the namespace
    #[arg(long = "agent", value_name = "NAME", help_heading = "Server")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Arguments that define a local agent.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(next_help_heading = "Agent")]
pub(crate) struct AgentArgs {
    /// Model as provider/model: openai/gpt-5-mini, anthropic/claude-sonnet-5-5, ollama/llama3.2, demo; models after a
    /// comma are fallbacks
    #[arg(long, short, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Base URL of the provider; any OpenAI-compatible server
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// Environment variable with the API key
    #[arg(long, value_name = "NAME")]
    pub(crate) api_key_env: Option<String>,
    /// System prompt
    #[arg(long, alias = "system", value_name = "TEXT")]
    pub(crate) system_prompt: Option<String>,
    /// Maximum number of model calls for one message
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<u32>,
    /// Maximum duration of one run: 500ms, 30s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Offer no tools to the model
    #[arg(long)]
    pub(crate) no_tools: bool,
    /// Directory that the agent can read, list and search
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Let the agent write and edit files in the workspace, with approval
    #[arg(long, alias = "write", requires = "workspace")]
    pub(crate) workspace_write: bool,
    /// Directory of the notes that the tool save_note writes
    #[arg(long, value_name = "DIR", default_value = NOTES_DIR_DEFAULT)]
    pub(crate) notes_dir: PathBuf,
    #[command(flatten)]
    pub(crate) shell: ShellArgs,
    #[command(flatten)]
    pub(crate) tools: ToolArgs,
    /// Declared role of the agent; repeatable
    #[arg(long, value_name = "ROLE", requires = "manifests", help_heading = "Declared tools")]
    pub(crate) role: Vec<String>,
    /// Name of the session; a later command with the same name continues it
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// Approve every tool call
    #[arg(long)]
    pub(crate) yes: bool,
}

impl AgentArgs {
    /// Returns true if an argument differs from its default, apart from the session and `--yes`.
    pub(crate) fn defines_agent(&self) -> bool {
        #[derive(Parser)]
        struct Defaults {
            #[command(flatten)]
            agent: AgentArgs,
        }
        let defaults = Defaults::parse_from(["provost"]).agent;
        let definition = Self { session: None, yes: false, ..self.clone() };
        definition != defaults
    }

    /// Returns the requested model.
    pub(crate) fn model_request(&self) -> ModelRequest {
        ModelRequest {
            model: self.model.clone(),
            base_url: self.base_url.clone(),
            api_key_env: self.api_key_env.clone(),
        }
    }

    /// Returns the directory that the agent can use.
    pub(crate) fn files(&self) -> Result<Option<Files>, CliError> {
        Ok(Files::new(self.workspace.as_ref(), self.workspace_write)?)
    }

    /// Returns the definition of the agent apart from the model.
    pub(crate) fn spec(&self, is_interactive: bool) -> Result<AgentSpec, CliError> {
        let files = self.files()?;
        let access = match &files {
            None => FileAccess::None,
            Some(files) if files.write => FileAccess::ReadWrite,
            Some(_) => FileAccess::ReadOnly,
        };
        let shell = self.shell.shell()?;
        let uses_manifests = self.tools.manifests.is_some() && !self.no_tools;
        let all = || if uses_manifests { vec![ALL_TOOLS.to_owned()] } else { Vec::new() };
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Ok(AgentSpec {
            system_prompt: Some(
                self.system_prompt.clone().unwrap_or_else(|| INSTRUCTIONS.to_owned()),
            ),
            policy: ExecutionPolicyPatch {
                interactive: Some(is_interactive),
                // The user decides whether to retry a failed run. Resuming a run after a crash does not count as an
                // attempt.
                retry: Some(RetryPolicy { max_attempts: 1, ..RetryPolicy::default() }),
                ..ExecutionPolicyPatch::default()
            },
            tools: !self.no_tools,
            declared_tools: all(),
            mcp_servers: all(),
            roles: self.role.clone(),
            files: access,
            workspace: files.map(|files| workspace_name(&files.dir)),
            shell: shell
                .map_or(AgentShell::Host(false), |shell| AgentShell::Own(shell.settings().clone())),
            ask_user: Some(false),
            max_turns: self.max_turns,
            timeout_ms: self.timeout.map(millis),
            ..AgentSpec::default()
        })
    }
}
