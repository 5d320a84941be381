//! The shell of an agent: command lines in a sandbox, as far as the command line of this program lets them run.

use std::sync::Arc;

use provost_builtin::shell::{Ask, Rule, Security};
use provost_builtin::{ExecPolicy, ShellOptions, shell_tools};
use provost_core::ErrorKind;
use provost_core::resource::IsolationMode;
use provost_sandbox::{Backends, Launcher, Profile, Workspace};
use provost_tool::{Spill, Tool};
use provost_workspace::conversation::Workspaces;
use serde::{Deserialize, Serialize};
use tokio::sync::OnceCell;

use super::builtin::Files;
use crate::error::HostError;

/// ShellAccess command lines run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShellAccess {
    /// Those whose every command is named
    Allowlist,
    /// Whatever the sandbox holds
    Full,
}

/// ShellApproval a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ShellApproval {
    /// Never: what is not allowed does not run
    Off,
    /// About what is not named
    #[default]
    OnMiss,
    /// About every line
    Always,
}

/// ShellAccess files command lines work on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShellWorkspace {
    /// Those of --workspace
    #[default]
    Workspace,
    /// Those of the conversation, which stay from call to call and are nobody else's
    Conversation,
}

/// What the shells of this process share.
pub struct ShellHost {
    /// Where command lines run.
    pub sandbox: Backends,
    /// Where long outputs are stored.
    pub spill: Option<Arc<dyn Spill>>,
    /// Where the files of conversations are.
    pub workspaces: Option<Workspaces>,
}

/// The sandbox of this machine, probed when the first shell needs it.
#[derive(Default)]
pub(crate) struct Sandbox(OnceCell<Backends>);

impl Sandbox {
    /// Probes this machine, unless that was done before. Fails if nothing here isolates a process.
    pub(crate) async fn probe(&self) -> Result<(), HostError> {
        let found = self.0.get_or_init(|| Backends::find(Launcher::own().ok())).await;
        found.select(&Profile::new(IsolationMode::Process)).map(drop).map_err(|error| {
            HostError::new(ErrorKind::Unavailable, error.to_string())
                .hint("`provost doctor --sandbox` tells what works here; nothing runs without one")
        })
    }

    /// What the probe found.
    pub(crate) fn found(&self) -> Result<Backends, HostError> {
        self.0.get().cloned().ok_or_else(|| {
            let what = "its command lines need a sandbox, and none was prepared here";
            HostError::new(ErrorKind::Unavailable, what).hint("start with --shell, as it was made")
        })
    }
}

/// The shell of an agent, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shell {
    which: ShellAccess,
    ask: ShellApproval,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    allow: Vec<String>,
    #[serde(default)]
    files: ShellWorkspace,
}

impl Shell {
    /// A shell that runs these command lines. A rule that cannot be read is refused now and not by the first call.
    pub fn new(
        which: ShellAccess,
        ask: ShellApproval,
        allow: Vec<String>,
        files: ShellWorkspace,
    ) -> Result<Self, HostError> {
        let shell = Self { which, ask, allow, files };
        shell.policy()?;
        Ok(shell)
    }

    /// True if it works on the files of conversations.
    pub fn keeps_files(&self) -> bool {
        self.files == ShellWorkspace::Conversation
    }

    /// Its tools, in the files that the agent has or that its conversation keeps.
    pub fn tools(
        &self,
        files: Option<&Files>,
        host: ShellHost,
    ) -> Result<Vec<Arc<dyn Tool>>, HostError> {
        let workspaces = host.workspaces.filter(|_| self.keeps_files());
        if self.keeps_files() && workspaces.is_none() {
            let what = "its shell works on the files of its conversation, which are not kept here";
            return Err(HostError::invalid(what)
                .hint("start with --shell and --shell-files conversation, as it was made"));
        }
        let workspace = match files {
            None => Workspace::None,
            Some(Files { dir, write: true }) => Workspace::ReadWrite(dir.clone()),
            Some(Files { dir, write: false }) => Workspace::ReadOnly(dir.clone()),
        };
        let options = ShellOptions {
            backends: host.sandbox,
            profile: Profile { workspace, ..Profile::new(IsolationMode::Process) },
            workspaces,
            policy: self.policy()?,
            spill: host.spill,
        };
        shell_tools(options).map_err(|error| HostError::new(ErrorKind::Bug, error.to_string()))
    }

    fn policy(&self) -> Result<ExecPolicy, HostError> {
        let rules = self.allow.iter().map(|rule| Rule::read(rule));
        let rules = rules.collect::<Result<_, _>>().map_err(|why| {
            HostError::invalid(format!("--shell-allow: {why}"))
                .hint("write it as `git status`, or as `=make check` for exactly that")
        })?;
        let security = match self.which {
            ShellAccess::Allowlist => Security::Allowlist,
            ShellAccess::Full => Security::Full,
        };
        let ask = match self.ask {
            ShellApproval::Off => Ask::Off,
            ShellApproval::OnMiss => Ask::OnMiss,
            ShellApproval::Always => Ask::Always,
        };
        Ok(ExecPolicy { security, ask, rules })
    }
}
