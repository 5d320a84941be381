//! Has a process of ours ready for the next job.
//!
//! To start a program from a large process costs what that one is large, and a shell between the two costs a program more. So
//! our launcher is started once, and has a process ready that waits for its order: see [`crate::launcher::starter`]. One that
//! has died is started again by the next job; jobs that run do not need it any more, since their parent is this process.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::Stdio;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{Shutdown, shutdown};
use rustix::process::Pid;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::Mutex;

use crate::error::IsolationError;
use crate::job::Input;
use crate::launcher::order::Order;
use crate::launcher::starter::{pair, receive, send};
use crate::launcher::{Launcher, STARTER};
use crate::limits::{KILL_GRACE, STARTER_TRIES_MAX};
use crate::process::{Made, Pipes, Process};
use crate::spawner::Spawner;

/// Has a process ready for the next job.
#[derive(Debug)]
pub(crate) struct Starter {
    launcher: Launcher,
    spawner: Arc<Spawner>,
    line: Mutex<Option<Line>>,
    nothing: File,
}

/// The line to the launcher. One process is asked for at any time, and comes or has come.
#[derive(Debug)]
struct Line {
    end: OwnedFd,
    /// Goes with this.
    _launcher: Child,
}

/// One that waits for its order.
struct Ready {
    made: Made,
    line: OwnedFd,
}

impl Starter {
    pub(crate) fn open(launcher: Launcher, spawner: Arc<Spawner>) -> io::Result<Self> {
        Ok(Self { launcher, spawner, line: Mutex::new(None), nothing: File::open("/dev/null")? })
    }

    /// Starts a job.
    pub(crate) async fn start(
        &self,
        order: &Order,
        input: &Input,
    ) -> Result<(Process, Pipes), IsolationError> {
        let mut line = self.line.lock().await;
        let mut tries = 0;
        loop {
            tries += 1;
            let opened = match line.take() {
                Some(opened) => opened,
                None => self.connect().await?,
            };
            let started = self.order(&opened, order, input);
            match &started {
                // Somebody has ended the launcher, or the one that waited.
                Err(error) if is_gone(error) && tries < STARTER_TRIES_MAX => continue,
                Err(error) if is_gone(error) => {}
                // One that cannot be asked any more is no use to the next job.
                _ => *line = opened.ask().is_ok().then_some(opened),
            }
            return started.map_err(IsolationError::io("the sandbox cannot be started"));
        }
    }

    async fn connect(&self) -> Result<Line, IsolationError> {
        let (ours, theirs) = pair().map_err(IsolationError::io("no line to a launcher"))?;
        let mut command = Command::new(&self.launcher.program);
        command.args(&self.launcher.args).arg(STARTER).env_clear().current_dir("/");
        command.stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null());
        let launcher = self.spawner.spawn(command).await?;
        let line = Line { end: ours, _launcher: launcher };
        line.ask().map_err(IsolationError::io("the launcher does not listen"))?;
        Ok(line)
    }

    /// Hands a job to the one that waits. Blocks only if that one is just being made.
    fn order(&self, line: &Line, order: &Order, input: &Input) -> io::Result<(Process, Pipes)> {
        let ready = line.ready()?;
        let (stdin, to_stdin) = match input {
            Input::Empty => (self.nothing.try_clone()?.into(), None),
            Input::Bytes(_) | Input::Piped => {
                let (theirs, ours) = io::pipe()?;
                (OwnedFd::from(theirs), Some(OwnedFd::from(ours)))
            }
        };
        let (from_stdout, stdout) = io::pipe()?;
        let (from_stderr, stderr) = io::pipe()?;
        let (stdout, stderr) = (OwnedFd::from(stdout), OwnedFd::from(stderr));
        let order = OwnedFd::from(order.write()?);
        let files = [&order, &stdin, &stdout, &stderr].map(|file| file.as_fd());
        send(ready.line.as_fd(), b"go", &files)?;
        let pipes = Pipes {
            stdin: to_stdin.map(|end| ChildStdin::from_std(end.into())).transpose()?,
            stdout: Some(ChildStdout::from_std(OwnedFd::from(from_stdout).into())?),
            stderr: Some(ChildStderr::from_std(OwnedFd::from(from_stderr).into())?),
        };
        Ok((Process::watched(ready.made)?, pipes))
    }
}

impl Line {
    /// Asks for one more process.
    fn ask(&self) -> io::Result<()> {
        send(self.end.as_fd(), b"1", &[])
    }

    /// The one that waits.
    fn ready(&self) -> io::Result<Ready> {
        let patience = Timespec {
            tv_sec: KILL_GRACE.as_secs().cast_signed(),
            tv_nsec: KILL_GRACE.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(&self.end, PollFlags::IN)];
        if poll(&mut fds, Some(&patience))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let (number, mut files) = receive(self.end.as_fd())?.ok_or_else(gone)?;
        let made = Pid::from_raw(i32::from_ne_bytes(number)).and_then(Made::of);
        match (made, files.pop()) {
            (Some(made), Some(line)) => Ok(Ready { made, line }),
            _ => Err(gone()),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // The launcher ends after the last one that it was asked for. That is a child of ours, which nobody else would fetch.
        shutdown(&self.end, Shutdown::Write).unwrap_or_default();
        drop(self.ready());
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset | io::ErrorKind::TimedOut
    )
}
