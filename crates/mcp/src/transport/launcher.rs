//! The interface for starting server programs: by this process, or in a sandbox.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

/// Program to start, with its arguments and environment variables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LaunchRequest {
    /// Command of the program.
    pub command: String,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Environment of the program, including secrets.
    pub env: Vec<(String, String)>,
}

/// A started program, with its pipes.
pub struct LaunchedServer {
    /// Standard input of the program.
    pub stdin: ChildStdin,
    /// Standard output of the program.
    pub stdout: ChildStdout,
    /// Standard error of the program.
    pub stderr: ChildStderr,
    /// Handle of the process.
    pub handle: Box<dyn ServerProcessHandle>,
}

/// Error of starting a program.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LaunchError {
    /// The required isolation is not available. The program was not started.
    #[error("{0}")]
    Isolation(String),
    /// The program could not be started.
    #[error("{0}")]
    Failed(String),
}

/// Exit status of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitKind {
    /// The program exited with this code.
    Code(i32),
    /// A signal terminated the program.
    Signal,
    /// The exit status is unknown.
    Unknown,
}

/// Handle of a server process. Dropping it kills the process and its children.
pub trait ServerProcessHandle: Send + Sync {
    /// Returns the exit status. `None` while the program runs.
    fn exit(&self) -> Option<ExitKind>;

    /// Requests the exit of the program with a signal, and does not wait.
    fn terminate(&self);

    /// Kills the program and its children without waiting.
    fn kill(&self);

    /// Kills the program and its children, and waits until they have exited.
    fn kill_and_wait(&self) -> BoxFuture<'_, ()>;
}

/// Starts server programs.
pub trait ProcessLauncher: Send + Sync + 'static {
    /// Starts a program.
    fn launch(&self, request: LaunchRequest) -> BoxFuture<'_, Result<LaunchedServer, LaunchError>>;
}

/// A launcher as part of a definition. Definitions are equal only if they share the launcher.
#[derive(Clone)]
pub(crate) struct LauncherRef(pub(crate) Arc<dyn ProcessLauncher>);

impl PartialEq for LauncherRef {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for LauncherRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LauncherRef(..)")
    }
}
