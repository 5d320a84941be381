//! The shell of an agent, which runs command lines in a sandbox.

use std::sync::Arc;

use provost_builtin::shell::{AskPolicy, CommandRule, ExecMode};
use provost_builtin::{ExecPolicy, ShellOptions, shell_tools};
use provost_core::ErrorKind;
use provost_core::resource::{
    IsolationMode, ShellAccess, ShellApproval, ShellSettings, ShellWorkspace,
};
use provost_sandbox::{IsolationProfile, Launcher, SandboxRegistry, WorkspaceMount};
use provost_tool::{ArtifactStore, Tool};
use provost_workspace::conversation::ConversationWorkspaces;
use tokio::sync::OnceCell;

use super::builtin::Files;
use crate::error::HostError;

/// Dependencies of the shells of a process.
pub struct ShellHost {
    /// Sandbox backends.
    pub sandbox: SandboxRegistry,
    /// Storage of long outputs. `None` if outputs are truncated.
    pub spill: Option<Arc<dyn ArtifactStore>>,
    /// Workspaces of conversations.
    pub workspaces: Option<ConversationWorkspaces>,
}

/// Sandbox backends of this machine. They are probed when the first shell needs them.
#[derive(Default)]
pub(crate) struct LazySandboxes(OnceCell<SandboxRegistry>);

impl LazySandboxes {
    /// Probes this machine once. Returns an error if no backend can isolate a process.
    pub(crate) async fn probe(&self) -> Result<(), HostError> {
        let found = self.0.get_or_init(|| SandboxRegistry::detect(Launcher::own().ok())).await;
        found.select(&IsolationProfile::new(IsolationMode::Process)).map(drop).map_err(|error| {
            HostError::new(ErrorKind::Unavailable, error.to_string())
                .hint("`provost doctor --sandbox` shows the available sandboxes")
        })
    }

    /// Returns the backends that the probe found.
    pub(crate) fn found(&self) -> Result<SandboxRegistry, HostError> {
        self.0.get().cloned().ok_or_else(|| {
            let message = "the shell of the agent needs a sandbox, and this process has none";
            HostError::new(ErrorKind::Unavailable, message).hint("start with --shell")
        })
    }
}

/// Shell of an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shell(ShellSettings);

impl Shell {
    /// Creates a shell. Returns an error if a rule of the allow list is invalid.
    pub fn new(settings: ShellSettings) -> Result<Self, HostError> {
        let shell = Self(settings);
        shell.policy()?;
        Ok(shell)
    }

    /// Returns the settings.
    pub fn settings(&self) -> &ShellSettings {
        &self.0
    }

    /// Returns true if command lines work on the private files of the session.
    pub fn uses_session_files(&self) -> bool {
        self.0.workspace == ShellWorkspace::Session
    }

    /// Returns the tools of the shell, which work on the files of the agent or of its session.
    pub fn tools(
        &self,
        files: Option<&Files>,
        host: ShellHost,
    ) -> Result<Vec<Arc<dyn Tool>>, HostError> {
        let workspaces = host.workspaces.filter(|_| self.uses_session_files());
        if self.uses_session_files() && workspaces.is_none() {
            let message =
                "the shell of the agent uses a session workspace, and this process has none";
            return Err(HostError::invalid(message)
                .hint("start with --shell and --shell-workspace session"));
        }
        let workspace = match files {
            None => WorkspaceMount::None,
            Some(Files { dir, write: true }) => WorkspaceMount::ReadWrite(dir.clone()),
            Some(Files { dir, write: false }) => WorkspaceMount::ReadOnly(dir.clone()),
        };
        let options = ShellOptions {
            backends: host.sandbox,
            profile: IsolationProfile {
                workspace,
                ..IsolationProfile::new(IsolationMode::Process)
            },
            workspaces,
            policy: self.policy()?,
            spill: host.spill,
        };
        shell_tools(options).map_err(|error| HostError::new(ErrorKind::Bug, error.to_string()))
    }

    /// Returns the policy for command lines. Returns an error if a rule is invalid.
    fn policy(&self) -> Result<ExecPolicy, HostError> {
        let rules = self.0.allow.iter().map(|rule| CommandRule::parse(rule));
        let rules = rules.collect::<Result<_, _>>().map_err(|reason| {
            HostError::invalid(format!("--shell-allow: {reason}"))
                .hint("use `git status`, or `=make check` without further arguments")
        })?;
        let mode = match self.0.access {
            ShellAccess::Allowlist => ExecMode::Allowlist,
            ShellAccess::Full => ExecMode::Full,
        };
        let ask = match self.0.approval {
            ShellApproval::Never => AskPolicy::Off,
            ShellApproval::Unlisted => AskPolicy::OnMiss,
            ShellApproval::Always => AskPolicy::Always,
        };
        Ok(ExecPolicy { mode, ask, rules })
    }
}
