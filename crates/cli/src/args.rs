//! Arguments that several commands share, and what they mean to the host.

mod container;
mod shell;
mod tools;

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser};
use provost_host::agent::AgentOptions;
use provost_host::model::ModelRequest;
use provost_host::tool::Files;

pub(crate) use self::container::ContainerArgs;
pub(crate) use self::shell::ShellArgs;
pub(crate) use self::tools::{ToolArgs, ToolNetworkArg};
use crate::command::parse_duration;
use crate::problem::Problem;
use crate::remote::ServerArgs;

/// Where notes go unless another directory is named.
pub(crate) const NOTES_DIR_DEFAULT: &str = "notes";

/// Who takes part in a conversation, and where.
#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) agent: AgentArgs,
    /// The agent of the server; its default agent if none is named
    #[arg(long = "agent", value_name = "NAME", help_heading = "Server")]
    pub(crate) name: Option<String>,
    #[command(flatten)]
    pub(crate) server: ServerArgs,
}

/// Which agent to talk to.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
#[command(next_help_heading = "Agent")]
pub(crate) struct AgentArgs {
    /// The model, as provider/model: openai/gpt-5-mini, anthropic/claude-sonnet-5-5, ollama/llama3.2, demo; with commas between
    /// several, each stands in for those before it
    #[arg(long, short, value_name = "MODEL")]
    pub(crate) model: Option<String>,
    /// Where the provider is; any OpenAI-compatible server will do
    #[arg(long, value_name = "URL")]
    pub(crate) base_url: Option<String>,
    /// The environment variable that holds the key
    #[arg(long, value_name = "NAME")]
    pub(crate) api_key_env: Option<String>,
    /// What the agent is told before anything else
    #[arg(long, value_name = "TEXT")]
    pub(crate) system: Option<String>,
    /// Rounds of tool calls in one turn
    #[arg(long, value_name = "N")]
    pub(crate) max_turns: Option<u32>,
    /// Time for one turn: 500ms, 30s, 5m, 1h
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    pub(crate) timeout: Option<Duration>,
    /// Offer no tools to the model
    #[arg(long)]
    pub(crate) no_tools: bool,
    /// A directory whose files the agent may read, list and search; nothing outside of it
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Let the agent also write and edit files there, asking first
    #[arg(long, requires = "workspace")]
    pub(crate) write: bool,
    /// Where the tool save_note writes
    #[arg(long, value_name = "DIR", default_value = NOTES_DIR_DEFAULT)]
    pub(crate) notes_dir: PathBuf,
    #[command(flatten)]
    pub(crate) shell: ShellArgs,
    #[command(flatten)]
    pub(crate) tools: ToolArgs,
    /// A role of the agent, of those that are declared; can be repeated
    #[arg(long, value_name = "ROLE", requires = "resources", help_heading = "Declared tools")]
    pub(crate) role: Vec<String>,
    /// The name of the conversation: it is kept under it, and goes on next time
    #[arg(long, value_name = "NAME")]
    pub(crate) session: Option<String>,
    /// Allow every tool call without asking
    #[arg(long)]
    pub(crate) yes: bool,
}

impl AgentArgs {
    /// True if the arguments say how the agent is made.
    pub(crate) fn describes_agent(&self) -> bool {
        #[derive(Parser)]
        struct Usual {
            #[command(flatten)]
            agent: AgentArgs,
        }
        let usual = Usual::parse_from(["provost"]).agent;
        let described = Self { session: None, yes: false, ..self.clone() };
        described != usual
    }

    /// What is asked for about the model.
    pub(crate) fn model_request(&self) -> ModelRequest {
        ModelRequest {
            model: self.model.clone(),
            base_url: self.base_url.clone(),
            api_key_env: self.api_key_env.clone(),
        }
    }

    /// What is asked for about everything else.
    pub(crate) fn options(&self, is_interactive: bool) -> Result<AgentOptions, Problem> {
        Ok(AgentOptions {
            system: self.system.clone(),
            is_interactive,
            api_key_env: self.api_key_env.clone(),
            no_tools: self.no_tools,
            notes_dir: self.notes_dir.clone(),
            files: Files::new(self.workspace.as_ref(), self.write)?,
            shell: self.shell.shell()?,
            resources: self.tools.resources.clone(),
            max_turns: self.max_turns,
            timeout: self.timeout,
        })
    }
}
