//! A program of this process, with its whole process group.
//!
//! Invariant: the process group is killed before its leader is reaped, so a number that somebody else has got meanwhile is
//! never signalled.

use std::process::Stdio as Pipe;
use std::sync::{Mutex, OnceLock};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::connection::monitor::locked;
use crate::limits::KILL_GRACE;
use crate::transport::launcher::{Ending, Life, StartError, Started};

/// A running program with its whole process group.
struct Group {
    leader: Pid,
    child: Mutex<Option<Child>>,
    ending: OnceLock<Ending>,
}

/// Starts a program in a group of its own.
pub(super) fn start(mut command: Command) -> Result<Started, StartError> {
    command.stdin(Pipe::piped()).stdout(Pipe::piped()).stderr(Pipe::piped());
    command.process_group(0).kill_on_drop(true);
    let mut child = command.spawn().map_err(|error| StartError::Failed(error.to_string()))?;
    let leader = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let (Some(leader), Some(input), Some(output), Some(errors)) =
        (leader, child.stdin.take(), child.stdout.take(), child.stderr.take())
    else {
        return Err(StartError::Failed("the program has no pipes".to_owned()));
    };
    let child = Mutex::new(Some(child));
    let life = Box::new(Group { leader, child, ending: OnceLock::new() });
    Ok(Started { input, output, errors, life })
}

impl Group {
    fn signal(&self, signal: Signal) {
        let child = locked(&self.child);
        if child.is_some()
            && let Err(error) = kill_process_group(self.leader, signal)
        {
            tracing::debug!(%error, "an MCP server's process group is gone already");
        }
    }
}

impl Life for Group {
    /// It is not reaped by this.
    fn ended(&self) -> Option<Ending> {
        if let Some(ending) = self.ending.get() {
            return Some(*ending);
        }
        let child = locked(&self.child);
        if child.is_none() {
            return Some(Ending::Unknown);
        }
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        let status = waitid(WaitId::Pid(self.leader), options).ok().flatten()?;
        let ending = || status.exit_status().map_or(Ending::Signal, Ending::Code);
        Some(*self.ending.get_or_init(ending))
    }

    fn ask(&self) {
        self.signal(Signal::TERM);
    }

    fn kill(&self) {
        self.signal(Signal::KILL);
    }

    fn end(&self) -> BoxFuture<'_, ()> {
        async {
            self.kill();
            let child = locked(&self.child).take();
            if let Some(mut child) = child
                && !matches!(timeout(KILL_GRACE, child.wait()).await, Ok(Ok(_)))
            {
                tracing::warn!(pid = self.leader.as_raw_nonzero(), "an MCP server does not end");
            }
        }
        .boxed()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}
