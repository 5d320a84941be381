//! Which programs may be started. Declaring a server must not be a way to run anything at all.

use std::collections::BTreeSet;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use provost_core::Secret;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_mcp::McpServer;
use provost_mcp::launcher::Starter;

use crate::transport::fault;

/// The programs that may be started, each as it must be written. Empty by default, and empty means none.
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
    /// These programs and no others. What `PATH` finds is allowed only if the list has it as a bare name too.
    pub fn of<C: Into<String>>(commands: impl IntoIterator<Item = C>) -> Self {
        let commands = commands.into_iter().map(Into::into);
        Self { commands: commands.filter(|command| !command.is_empty()).collect() }
    }

    /// Refuses a program that is not on the list.
    pub fn check(&self, command: &str) -> Result<(), ToolContractError> {
        if self.commands.contains(command) {
            return Ok(());
        }
        let shown = fault::shown(command);
        Err(ToolContractError::new(
            ToolErrorCode::PermissionDenied,
            format!(
                "the program `{shown}` may not be started: add it to the list of allowed commands"
            ),
        )
        .detail("command", shown))
    }
}

/// A program that is an MCP server. It gets `PATH`, `HOME`, `LANG` and what is declared here, and nothing else of our
/// environment.
#[derive(Clone, Default)]
pub struct Program {
    /// What is started; no shell is between.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Further variables of its environment. Their values are taken for secrets and known to the pool's redactor.
    pub env: Vec<(String, Secret<String>)>,
    /// Variables that are no secrets.
    pub settings: Vec<(String, String)>,
    /// Where it starts.
    pub dir: Option<PathBuf>,
    /// Who starts it, if not this process.
    pub starter: Option<Arc<dyn Starter>>,
}

impl Program {
    /// A program without arguments.
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
        for (name, value) in self.settings {
            server = server.setting(name, value);
        }
        for (name, value) in self.env {
            server = server.env(name, value);
        }
        if let Some(dir) = self.dir {
            server = server.dir(dir);
        }
        match self.starter {
            Some(starter) => server.started_by(starter),
            None => server,
        }
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { command, args, .. } = self;
        f.debug_struct("Program")
            .field("command", command)
            .field("args", args)
            .finish_non_exhaustive()
    }
}
