//! The arguments about the shell of an agent.

use provost_host::tool::{Shell, ShellAccess, ShellApproval, ShellWorkspace};

use crate::problem::Problem;

/// What the command line says about the shell.
#[derive(Debug, Clone, PartialEq, Eq, Default, clap::Args)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Which {
    /// Those whose every command is named
    Allowlist,
    /// Whatever the sandbox holds
    Full,
}

/// When a person is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
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
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
enum WhichFiles {
    /// Those of --workspace
    #[default]
    Workspace,
    /// Those of the conversation, which stay from call to call and are nobody else's
    Conversation,
}

impl ShellArgs {
    /// The shell that they ask for.
    pub(crate) fn shell(&self) -> Result<Option<Shell>, Problem> {
        let Some(which) = self.shell else { return Ok(None) };
        let access = match which {
            Which::Allowlist => ShellAccess::Allowlist,
            Which::Full => ShellAccess::Full,
        };
        let approval = match self.shell_ask {
            When::Off => ShellApproval::Off,
            When::OnMiss => ShellApproval::OnMiss,
            When::Always => ShellApproval::Always,
        };
        let files = match self.shell_files {
            WhichFiles::Workspace => ShellWorkspace::Workspace,
            WhichFiles::Conversation => ShellWorkspace::Conversation,
        };
        Ok(Some(Shell::new(access, approval, self.shell_allow.clone(), files)?))
    }
}
