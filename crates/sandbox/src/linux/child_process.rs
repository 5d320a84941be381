//! The process of a job that is a child of ours, whoever has made it.

mod watch;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;
use std::time::Duration;

use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, WaitIdStatus, pidfd_send_signal, waitid,
};
use tokio::io::unix::AsyncFd;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout};
use tokio::time::timeout;

use self::watch::watch;
use crate::limits::KILL_GRACE;
use crate::linux::process_tree;
use crate::teardown::Held;

/// The process of a job.
#[derive(Debug)]
pub(crate) enum Process {
    /// Started by the library, which also waits for it.
    Child(Child),
    /// Made by our starter.
    Made(Made, AsyncFd<OwnedFd>),
}

/// A child of ours that somebody else has made. Dropping it ends it.
#[derive(Debug)]
pub(crate) struct Made {
    held: Held,
    status: Option<ExitStatus>,
}

/// A process that was just started.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) process: Process,
    /// Our ends of its standard files.
    pub(crate) pipes: Pipes,
}

/// The ends of its pipes that are ours.
#[derive(Debug, Default)]
pub(crate) struct Pipes {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

impl Pipes {
    pub(crate) fn of(child: &mut Child) -> Self {
        Self { stdin: child.stdin.take(), stdout: child.stdout.take(), stderr: child.stderr.take() }
    }
}

impl Process {
    /// A process whose end can be waited for.
    pub(crate) fn watched(made: Made) -> io::Result<Self> {
        let handle = watch(made.held.handle.try_clone()?)?;
        Ok(Self::Made(made, handle))
    }

    /// A handle on it; nothing if it is gone.
    pub(crate) fn held(&self) -> Option<Held> {
        match self {
            Self::Child(child) => {
                let pid = i32::try_from(child.id()?).ok().and_then(Pid::from_raw)?;
                Some(Held { pid, handle: process_tree::handle(pid)? })
            }
            Self::Made(made, _) => {
                Some(Held { pid: made.held.pid, handle: made.held.handle.try_clone().ok()? })
            }
        }
    }

    /// Fetches it if it has ended. One that has not is ended by the hand of whoever has started it.
    pub(crate) fn fetch(self) {
        if let Self::Child(mut child) = self {
            drop(child.try_wait());
        }
    }

    /// Waits for its end. It can be asked again.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let (made, handle) = match self {
            Self::Child(child) => return child.wait().await,
            Self::Made(made, handle) => (made, handle),
        };
        loop {
            if let Some(status) = made.fetch()? {
                return Ok(status);
            }
            let mut seen = handle.readable().await?;
            if made.fetch()?.is_none() {
                seen.clear_ready();
            }
        }
    }
}

/// Waits until a process has ended, whoever its parent is; not for longer than it may take.
pub(crate) async fn ended(handle: OwnedFd) {
    if let Ok(handle) = watch(handle)
        && timeout(KILL_GRACE, handle.readable()).await.is_err()
    {
        tracing::warn!("a process of a sandbox does not end");
    }
}

impl Made {
    /// A child of ours by its number; nothing if there is no such process.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        Some(Self { held: Held { pid, handle: process_tree::handle(pid)? }, status: None })
    }

    /// True if it is over.
    pub(crate) fn has_ended(&self) -> bool {
        process_tree::ended_within(&self.held.handle, Duration::ZERO)
    }

    /// How it has ended, if it has.
    fn fetch(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            let which = WaitId::PidFd(self.held.handle.as_fd());
            let told = waitid(which, WaitIdOptions::EXITED | WaitIdOptions::NOHANG)?;
            self.status = told.as_ref().map(status);
        }
        Ok(self.status)
    }
}

impl Drop for Made {
    fn drop(&mut self) {
        if matches!(self.fetch(), Ok(None)) {
            pidfd_send_signal(&self.held.handle, Signal::KILL).unwrap_or_default();
            process_tree::ended_within(&self.held.handle, KILL_GRACE);
            // Nobody else would fetch it.
            self.fetch().map(drop).unwrap_or_default();
        }
    }
}

fn status(told: &WaitIdStatus) -> ExitStatus {
    const CODE_AT: i32 = 8;
    match (told.exit_status(), told.terminating_signal()) {
        (Some(code), _) => ExitStatus::from_raw(code << CODE_AT),
        (None, signal) => ExitStatus::from_raw(signal.unwrap_or_default()),
    }
}
