//! The shell of an agent: command lines in a sandbox, as far as the command line of this program lets them run.

use std::sync::{Arc, OnceLock};

use provost_builtin::shell::{Ask, Rule, Security};
use provost_builtin::{ExecPolicy, ShellOptions, shell_tools};
use provost_core::ErrorKind;
use provost_core::resource::IsolationMode;
use provost_sandbox::{Backends, Launcher, Profile, Workspace};
use provost_tool::{Spill, Tool};
use provost_workspace::conversation::Workspaces;
use serde::{Deserialize, Serialize};

use super::Files;
use crate::problem::Problem;

/// What the command line says about the shell.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Shell")]
pub(crate) struct ShellArgs {
    /// Let the agent run command lines in a sandbox without network: those that --shell-allow names, or all; they see the
    /// files of --workspace, and change them only with --write
    #[arg(long, global = true, value_enum, value_name = "WHICH")]
    shell: Option<Which>,
    /// When a person is asked about a command line
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        requires = "shell"
    )]
    shell_ask: When,
    /// A command that may run: `git status` with any arguments after it, `=make check` exactly so, `pure: git log` if a
    /// repeat does nothing; can be repeated
    #[arg(long, global = true, value_name = "COMMAND", requires = "shell")]
    shell_allow: Vec<String>,
    /// Which files command lines work on
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "WHICH",
        requires = "shell"
    )]
    shell_files: WhichFiles,
}

/// Which command lines run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Which {
    /// Those whose every command is named
    Allowlist,
    /// Whatever the sandbox holds
    Full,
}

/// When a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum When {
    /// Never: what is not allowed does not run
    Off,
    /// About what is not named
    #[default]
    OnMiss,
    /// About every line
    Always,
}

/// Which files command lines work on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WhichFiles {
    /// Those of --workspace
    #[default]
    Workspace,
    /// Those of the conversation, which stay from call to call and are nobody else's
    Conversation,
}

/// What this program keeps for its shells.
pub(crate) struct Keeps {
    /// Where long outputs are kept.
    pub(crate) spill: Option<Arc<dyn Spill>>,
    /// Where the files of conversations are.
    pub(crate) workspaces: Option<Workspaces>,
}

/// The shell of an agent, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Shell {
    which: Which,
    ask: When,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    allow: Vec<String>,
    #[serde(default)]
    files: WhichFiles,
}

impl Shell {
    /// What the command line says. What is wrong with it is said now and not by the first call.
    pub(crate) fn new(args: &ShellArgs) -> Result<Option<Self>, Problem> {
        let Some(which) = args.shell else { return Ok(None) };
        let (ask, allow) = (args.shell_ask, args.shell_allow.clone());
        let shell = Self { which, ask, allow, files: args.shell_files };
        shell.policy()?;
        sandbox()?;
        Ok(Some(shell))
    }

    /// True if it works on the files of conversations.
    pub(crate) fn keeps_files(&self) -> bool {
        self.files == WhichFiles::Conversation
    }

    /// Its tools, in the files that the agent has or that its conversation keeps.
    pub(crate) fn tools(
        &self,
        files: Option<&Files>,
        keeps: Keeps,
    ) -> Result<Vec<Arc<dyn Tool>>, Problem> {
        let workspaces = keeps.workspaces.filter(|_| self.keeps_files());
        if self.keeps_files() && workspaces.is_none() {
            let what = "its shell works on the files of its conversation, which are not kept here";
            return Err(Problem::invalid(what)
                .help("start with --shell and --shell-files conversation, as it was made"));
        }
        let workspace = match files {
            None => Workspace::None,
            Some(Files { dir, write: true }) => Workspace::ReadWrite(dir.clone()),
            Some(Files { dir, write: false }) => Workspace::ReadOnly(dir.clone()),
        };
        let options = ShellOptions {
            backends: sandbox()?.clone(),
            profile: Profile { workspace, ..Profile::new(IsolationMode::Process) },
            workspaces,
            policy: self.policy()?,
            spill: keeps.spill,
        };
        shell_tools(options).map_err(|error| Problem::new(ErrorKind::Bug, error.to_string()))
    }

    fn policy(&self) -> Result<ExecPolicy, Problem> {
        let rules = self.allow.iter().map(|rule| Rule::read(rule));
        let rules = rules.collect::<Result<_, _>>().map_err(|why| {
            Problem::invalid(format!("--shell-allow: {why}"))
                .help("write it as `git status`, or as `=make check` for exactly that")
        })?;
        let security = match self.which {
            Which::Allowlist => Security::Allowlist,
            Which::Full => Security::Full,
        };
        let ask = match self.ask {
            When::Off => Ask::Off,
            When::OnMiss => Ask::OnMiss,
            When::Always => Ask::Always,
        };
        Ok(ExecPolicy { security, ask, rules })
    }
}

/// The sandbox of this machine, looked for once and only by whoever has a shell.
fn sandbox() -> Result<&'static Backends, Problem> {
    static FOUND: OnceLock<Backends> = OnceLock::new();
    let found = match FOUND.get() {
        Some(found) => found,
        None => {
            let found = find().map_err(|error| Problem::io("the sandbox", &error))?;
            FOUND.get_or_init(|| found)
        }
    };
    found.select(&Profile::new(IsolationMode::Process)).map_err(|error| {
        Problem::new(ErrorKind::Unavailable, error.to_string())
            .help("`provost doctor --sandbox` tells what works here; nothing runs without one")
    })?;
    Ok(found)
}

/// Agents are made where nobody can wait for a program; so another thread does.
fn find() -> std::io::Result<Backends> {
    let search = || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        Ok(runtime.block_on(Backends::find(Launcher::own().ok())))
    };
    let searched = std::thread::scope(|scope| scope.spawn(search).join());
    searched.unwrap_or_else(|_| Err(std::io::Error::other("the search for one broke off")))
}
