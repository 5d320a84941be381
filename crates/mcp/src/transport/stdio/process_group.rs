//! A child process with its process group.
//!
//! Invariant: the process group is killed before its leader is reaped, so a reused process id is never signalled.

use std::process::Stdio as Pipe;
use std::sync::OnceLock;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::connection::monitor::locked;
use crate::limits::KILL_GRACE;
use crate::transport::launcher::{ExitKind, LaunchError, LaunchedServer, ServerProcessHandle};

/// A child process with its process group.
struct ProcessGroup {
    leader: Pid,
    child: Mutex<Option<Child>>,
    exit: OnceLock<ExitKind>,
}

/// Starts a program in its own process group. Returns an error if it cannot be started.
pub(super) fn start(mut command: Command) -> Result<LaunchedServer, LaunchError> {
    command.stdin(Pipe::piped()).stdout(Pipe::piped()).stderr(Pipe::piped());
    command.process_group(0).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| LaunchError::Failed(error.to_string()))?;
    let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let (Some(leader), Some(stdin), Some(stdout), Some(stderr)) =
        (leader, child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(LaunchError::Failed("the program has no pipes".to_owned()));
    };
    let child = Mutex::new(Some(child));
    let handle = Box::new(ProcessGroup { leader, child, exit: OnceLock::new() });
    Ok(LaunchedServer { stdin, stdout, stderr, handle })
}

impl ProcessGroup {
    /// Sends a signal to the process group. Does nothing after the process was reaped.
    fn send_signal(&self, signal: Signal) {
        let child = locked(&self.child);
        if child.is_some()
            && let Err(error) = kill_process_group(self.leader, signal)
        {
            tracing::debug!(%error, "process group of an MCP server is already gone");
        }
    }
}

impl ServerProcessHandle for ProcessGroup {
    /// Returns the exit status without reaping the process. `None` while it runs.
    fn exit(&self) -> Option<ExitKind> {
        if let Some(exit) = self.exit.get() {
            return Some(*exit);
        }
        let child = locked(&self.child);
        if child.is_none() {
            return Some(ExitKind::Unknown);
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.leader), options).ok().flatten()?;
        let exit = || status.exit_status().map_or(ExitKind::Signal, ExitKind::Code);
        Some(*self.exit.get_or_init(exit))
    }

    fn terminate(&self) {
        self.send_signal(Signal::TERM);
    }

    fn kill(&self) {
        self.send_signal(Signal::KILL);
    }

    fn kill_and_wait(&self) -> BoxFuture<'_, ()> {
        async {
            self.kill();
            let child = locked(&self.child).take();
            if let Some(mut child) = child
                && !matches!(timeout(KILL_GRACE, child.wait()).await, Ok(Ok(_)))
            {
                tracing::warn!(pid = self.leader.as_raw_nonzero(), "MCP server does not exit");
            }
        }
        .boxed()
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        self.kill();
    }
}
