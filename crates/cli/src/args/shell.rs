//! Arguments of the shell of an agent.

use provost_core::resource::{ShellAccess, ShellApproval, ShellSettings, ShellWorkspace};
use provost_host::tool::Shell;

use crate::error::CliError;

/// Arguments of the shell.
#[derive(Debug, Clone, PartialEq, Eq, Default, clap::Args)]
#[command(next_help_heading = "Shell")]
pub(crate) struct ShellArgs {
    /// Let the agent run command lines in a sandbox without network; they read the files of --workspace and change them
    /// only with --workspace-write
    #[arg(long, global = true, value_enum, value_name = "ACCESS")]
    shell: Option<Access>,
    /// When a command line requires approval
    #[arg(
        long,
        alias = "shell-ask",
        global = true,
        value_enum,
        default_value_t,
        value_name = "WHEN",
        requires = "shell"
    )]
    shell_approval: Approval,
    /// Allowed command: `git status` with any further arguments, `=make check` without further arguments, `pure: git
    /// log` if repeating the command is safe; repeatable
    #[arg(long, global = true, value_name = "COMMAND", requires = "shell")]
    shell_allow: Vec<String>,
    /// Files that command lines work on
    #[arg(
        long,
        alias = "shell-files",
        global = true,
        value_enum,
        default_value_t,
        value_name = "WORKSPACE",
        requires = "shell"
    )]
    shell_workspace: Workspace,
}

/// Command lines that can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Access {
    /// Only command lines whose commands --shell-allow names
    Allowlist,
    /// Every command line
    Full,
}

/// Command lines that require approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Approval {
    /// Never; with `allowlist`, other command lines fail
    #[value(alias = "off")]
    Never,
    /// Command lines with a command that --shell-allow does not name; with `full`, none
    #[default]
    #[value(alias = "on-miss")]
    Unlisted,
    /// Every command line
    Always,
}

/// Files that command lines work on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum Workspace {
    /// The files of --workspace
    #[default]
    #[value(alias = "workspace")]
    Shared,
    /// A private workspace of the conversation, which is kept between calls
    #[value(alias = "conversation")]
    Session,
}

impl ShellArgs {
    /// Returns the requested shell. `None` if the agent has no shell.
    pub(crate) fn shell(&self) -> Result<Option<Shell>, CliError> {
        let Some(access) = self.shell else { return Ok(None) };
        let access = match access {
            Access::Allowlist => ShellAccess::Allowlist,
            Access::Full => ShellAccess::Full,
        };
        let approval = match self.shell_approval {
            Approval::Never => ShellApproval::Never,
            Approval::Unlisted => ShellApproval::Unlisted,
            Approval::Always => ShellApproval::Always,
        };
        let workspace = match self.shell_workspace {
            Workspace::Shared => ShellWorkspace::Shared,
            Workspace::Session => ShellWorkspace::Session,
        };
        let allow = self.shell_allow.clone();
        Ok(Some(Shell::new(ShellSettings { access, approval, allow, workspace })?))
    }
}
