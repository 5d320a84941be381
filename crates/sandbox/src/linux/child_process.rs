//! The root process of a job, which is a child of this process.

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
use crate::teardown::PidFd;

/// The root process of a job.
#[derive(Debug)]
pub(crate) enum ChildProcess {
    /// Started with the standard library of Tokio, which also waits for it.
    Spawned(Child),
    /// Created by the fork server.
    Forked(ForkedChild, AsyncFd<OwnedFd>),
}

/// A child process that the fork server created. Dropping it kills it.
#[derive(Debug)]
pub(crate) struct ForkedChild {
    pidfd: PidFd,
    status: Option<ExitStatus>,
}

/// A process that was just started.
#[derive(Debug)]
pub(crate) struct StartedProcess {
    pub(crate) process: ChildProcess,
    /// Our ends of the standard files.
    pub(crate) pipes: StdPipes,
}

/// Our ends of the standard files of a process.
#[derive(Debug, Default)]
pub(crate) struct StdPipes {
    pub(crate) stdin: Option<ChildStdin>,
    pub(crate) stdout: Option<ChildStdout>,
    pub(crate) stderr: Option<ChildStderr>,
}

impl StdPipes {
    /// Takes the pipes of a child process.
    pub(crate) fn of(child: &mut Child) -> Self {
        Self { stdin: child.stdin.take(), stdout: child.stdout.take(), stderr: child.stderr.take() }
    }
}

impl ChildProcess {
    /// Wraps a process whose end can be awaited.
    pub(crate) fn from_forked(child: ForkedChild) -> io::Result<Self> {
        let handle = watch(child.pidfd.handle.try_clone()?)?;
        Ok(Self::Forked(child, handle))
    }

    /// Returns a handle of the process. `None` if the process is gone.
    pub(crate) fn pidfd(&self) -> Option<PidFd> {
        match self {
            Self::Spawned(child) => {
                let pid = i32::try_from(child.id()?).ok().and_then(Pid::from_raw)?;
                Some(PidFd { pid, handle: process_tree::open_pidfd(pid)? })
            }
            Self::Forked(child, _) => {
                Some(PidFd { pid: child.pidfd.pid, handle: child.pidfd.handle.try_clone().ok()? })
            }
        }
    }

    /// Reaps the process if it has ended. Otherwise kills it by dropping it.
    pub(crate) fn reap(self) {
        if let Self::Spawned(mut child) = self {
            drop(child.try_wait());
        }
    }

    /// Waits for the end of the process. Repeated calls return the same status.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        let (child, handle) = match self {
            Self::Spawned(child) => return child.wait().await,
            Self::Forked(child, handle) => (child, handle),
        };
        loop {
            if let Some(status) = child.reap()? {
                return Ok(status);
            }
            let mut ready = handle.readable().await?;
            if child.reap()?.is_none() {
                ready.clear_ready();
            }
        }
    }
}

/// Waits until a process has ended, at most [`KILL_GRACE`]. Logs a warning after that.
pub(crate) async fn wait_until_ended(handle: OwnedFd) {
    if let Ok(handle) = watch(handle)
        && timeout(KILL_GRACE, handle.readable()).await.is_err()
    {
        tracing::warn!("a process of a sandbox does not end after SIGKILL");
    }
}

impl ForkedChild {
    /// Opens a child process by its id. `None` if there is no such process.
    pub(crate) fn of(pid: Pid) -> Option<Self> {
        Some(Self { pidfd: PidFd { pid, handle: process_tree::open_pidfd(pid)? }, status: None })
    }

    /// Returns true if the process has ended.
    pub(crate) fn has_ended(&self) -> bool {
        process_tree::ended_within(&self.pidfd.handle, Duration::ZERO)
    }

    /// Reaps the process and returns its exit status if it has ended. Otherwise returns `None`.
    fn reap(&mut self) -> io::Result<Option<ExitStatus>> {
        if self.status.is_none() {
            let which = WaitId::PidFd(self.pidfd.handle.as_fd());
            let wait_status = waitid(which, WaitIdOptions::EXITED | WaitIdOptions::NOHANG)?;
            self.status = wait_status.as_ref().map(status);
        }
        Ok(self.status)
    }
}

impl Drop for ForkedChild {
    fn drop(&mut self) {
        if matches!(self.reap(), Ok(None)) {
            pidfd_send_signal(&self.pidfd.handle, Signal::KILL).unwrap_or_default();
            process_tree::ended_within(&self.pidfd.handle, KILL_GRACE);
            // No other code reaps this process.
            self.reap().map(drop).unwrap_or_default();
        }
    }
}

/// Converts the status of `waitid`.
fn status(wait_status: &WaitIdStatus) -> ExitStatus {
    const CODE_AT: i32 = 8;
    match (wait_status.exit_status(), wait_status.terminating_signal()) {
        (Some(code), _) => ExitStatus::from_raw(code << CODE_AT),
        (None, signal) => ExitStatus::from_raw(signal.unwrap_or_default()),
    }
}
