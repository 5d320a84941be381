//! The seam to whoever starts programs that are servers: this process itself, or a sandbox.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

/// What is started.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its environment, secrets included: not for the eyes of anybody.
    pub env: Vec<(String, String)>,
}

/// A program that was started.
pub struct Started {
    /// The way to it.
    pub input: ChildStdin,
    /// What it says.
    pub output: ChildStdout,
    /// What it complains of.
    pub errors: ChildStderr,
    /// Whether it lives, and its end.
    pub life: Box<dyn Life>,
}

/// Why a program was not started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StartError {
    /// The isolation that it demands is not there. Nothing has run.
    #[error("{0}")]
    Isolation(String),
    /// It could not be started.
    #[error("{0}")]
    Failed(String),
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With this code.
    Code(i32),
    /// By a signal.
    Signal,
    /// Nobody knows how.
    Unknown,
}

/// A program's life. Dropping it ends the program with everything that it has started.
pub trait Life: Send + Sync {
    /// How the program ended, if it did.
    fn ended(&self) -> Option<Ending>;

    /// Asks it to end.
    fn ask(&self);

    /// Ends it now with everything that it has started, without waiting.
    fn kill(&self);

    /// The same, and waits until it is gone.
    fn end(&self) -> BoxFuture<'_, ()>;
}

/// Starts programs that are servers.
pub trait Starter: Send + Sync + 'static {
    /// Starts one.
    fn start(&self, program: Start) -> BoxFuture<'_, Result<Started, StartError>>;
}

/// A starter as a part of a definition: two definitions share a connection only if they share it.
#[derive(Clone)]
pub(crate) struct By(pub(crate) Arc<dyn Starter>);

impl PartialEq for By {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("By(..)")
    }
}
