//! Allow list of programs. Declaring a server must not permit running arbitrary programs.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use provost_core::Secret;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_mcp::McpServer;
use provost_mcp::launcher::ProcessLauncher;

use crate::transport::error;

/// Programs that may be started, matched exactly. The default is empty and allows no program.
///
/// ```
/// use provost_tool_runtime::CommandAllowList;
///
/// assert!(CommandAllowList::default().check("/usr/bin/node").is_err());
/// let allowed = CommandAllowList::of(["/usr/bin/node"]);
/// assert!(allowed.check("/usr/bin/node").is_ok());
/// assert!(allowed.check("node").is_err(), "a name is not a path");
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandAllowList {
    commands: BTreeSet<String>,
}

impl CommandAllowList {
    /// Creates a list of programs. A bare name is allowed only if the list contains the bare name.
    pub fn of<C: Into<String>>(commands: impl IntoIterator<Item = C>) -> Self {
        let commands = commands.into_iter().map(Into::into);
        Self { commands: commands.filter(|command| !command.is_empty()).collect() }
    }

    /// Checks whether a program is on the list.
    pub fn check(&self, command: &str) -> Result<(), ToolContractError> {
        if self.commands.contains(command) {
            return Ok(());
        }
        let command_excerpt = error::truncate_for_error(command);
        Err(ToolContractError::new(
            ToolErrorCode::PermissionDenied,
            format!("the program `{command_excerpt}` is not allowed: add it to the list of allowed commands"),
        )
        .detail("command", command_excerpt))
    }
}

/// An MCP server program. Its environment contains only `PATH`, `HOME`, `LANG` and the variables declared here.
#[derive(Clone, Default)]
pub struct StdioServer {
    /// Command of the program. It is started without a shell.
    pub command: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Secret environment variables. Their values are registered with the redactor of the pool.
    pub env: Vec<(String, Secret<String>)>,
    /// Environment variables that are not secret.
    pub public_env: Vec<(String, String)>,
    /// Working directory of the program.
    pub dir: Option<PathBuf>,
    /// Launcher of the program. `None` if this process starts it.
    pub launcher: Option<Arc<dyn ProcessLauncher>>,
}

impl StdioServer {
    /// Creates a program without arguments.
    pub fn new(command: impl Into<String>) -> Self {
        Self { command: command.into(), ..Self::default() }
    }

    /// Adds an argument.
    #[must_use]
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    pub(super) fn server(self, name: &str) -> McpServer {
        let mut server = McpServer::stdio(name, self.command).args(self.args);
        for (name, value) in self.public_env {
            server = server.public_env(name, value);
        }
        for (name, value) in self.env {
            server = server.env(name, value);
        }
        if let Some(dir) = self.dir {
            server = server.dir(dir);
        }
        match self.launcher {
            Some(launcher) => server.launcher(launcher),
            None => server,
        }
    }
}

impl fmt::Debug for StdioServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command, args, .. } = self;
        f.debug_struct("StdioServer")
            .field("command", command)
            .field("args", args)
            .finish_non_exhaustive()
    }
}
