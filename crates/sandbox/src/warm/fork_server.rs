//! Has processes of ours ready for the next jobs.
//!
//! To start a program from a large process costs what that one is large, and a shell between the two costs a program more. So
//! our launcher is started once, and has processes ready that wait for their orders: see [`crate::launcher::fork_server`]. One that
//! has died is started again by the next job; jobs that run do not need it any more, since their parent is this process.
//! There are a few of them, because it takes the kernel longer to let one into its control groups than a short job lasts.
//!
//! Invariant: a process is held from the moment that it can be told anything, so none is lost, whoever gives up when.

use std::collections::VecDeque;
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

use crate::command::{Input, Job};
use crate::error::IsolationError;
use crate::launcher::fork_server::{BETWEEN, MESSAGE_BYTES_MAX, Spaces, pair, receive, send};
use crate::launcher::order::Order;
use crate::launcher::{Launcher, STARTER};
use crate::limits::{KILL_GRACE, STARTER_TRIES_MAX, STARTERS_WAITING_MAX};
use crate::linux::cgroup::{Cgroup, Cgroups};
use crate::linux::child_process::{Made, Pipes, Process, Started};
use crate::linux::layout::DEVICES;
use crate::linux::scratch_dir::{JobDir, Scratch};
use crate::profile::Limits;
use crate::warm::spawn_thread::Spawner;

/// Has processes ready for the next jobs.
#[derive(Debug)]
pub(crate) struct Starter {
    /// Goes before what it needs.
    line: Mutex<Option<Line>>,
    launcher: Launcher,
    spawner: Arc<Spawner>,
    scratch: Scratch,
    cgroups: Cgroups,
    spaces: Spaces,
    nothing: File,
}

/// The line to the launcher.
#[derive(Debug)]
struct Line {
    end: OwnedFd,
    /// The places of those that were asked for and have not been taken, in the order in which they come.
    asked: VecDeque<Room>,
    /// Goes with this.
    _launcher: Child,
}

/// What a job has to itself, made before the job is known.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) dir: JobDir,
    pub(crate) cgroup: Cgroup,
    limits: Limits,
}

/// A process of ours that waits for its order, in its control groups.
#[derive(Debug)]
pub(crate) struct Waiting {
    made: Made,
    line: OwnedFd,
}

impl Room {
    /// Makes one.
    pub(crate) fn make(
        scratch: &Scratch,
        cgroups: &Cgroups,
        limits: &Limits,
    ) -> Result<Self, IsolationError> {
        let dir = scratch.job().map_err(IsolationError::io("no directory for a job"))?;
        let cgroup = cgroups.make(dir.name());
        let cgroup = cgroup.map_err(IsolationError::io("no control group for a job"))?;
        let bound = cgroups.bound(dir.name(), limits);
        bound.map_err(IsolationError::io("no control group for a job"))?;
        Ok(Self { dir, cgroup, limits: limits.clone() })
    }
}

impl Starter {
    pub(crate) fn open(
        launcher: Launcher,
        spawner: Arc<Spawner>,
        scratch: Scratch,
        cgroups: Cgroups,
        spaces: Spaces,
    ) -> Result<Self, IsolationError> {
        let nothing =
            File::open(DEVICES[0]).map_err(IsolationError::io("there is no /dev/null"))?;
        Ok(Self { line: Mutex::new(None), launcher, spawner, scratch, cgroups, spaces, nothing })
    }

    /// The one that waits for the next job. Waits itself only if that one is just being made.
    pub(crate) async fn take(&self, limits: &Limits) -> Result<(Waiting, Room), IsolationError> {
        let mut line = self.line.lock().await;
        let mut tries = 0;
        loop {
            tries += 1;
            let mut opened = match line.take() {
                Some(opened) => opened,
                None => self.connect().await?,
            };
            let taken = match opened.asked.is_empty() {
                false => Ok(()),
                true => opened.ask(self.spaces, Room::make(&self.scratch, &self.cgroups, limits)?),
            };
            match taken.and_then(|()| opened.ready()) {
                Ok((waiting, room)) => {
                    *line = Some(opened);
                    if room.limits != *limits {
                        let bound = self.cgroups.bound(room.dir.name(), limits);
                        bound.map_err(IsolationError::io("no control group for a job"))?;
                    }
                    return Ok((waiting, room));
                }
                // Somebody has ended the launcher, or the one that waited.
                Err(_) if tries < STARTER_TRIES_MAX => {}
                Err(error) => return Err(IsolationError::io("no sandbox can be started")(error)),
            }
        }
    }

    /// Hands a job to the one that waits, and has others made meanwhile: for jobs that may have as much.
    pub(crate) fn start(
        &self,
        waiting: Waiting,
        order: &Order,
        job: &Job,
    ) -> Result<Started, IsolationError> {
        let cannot = IsolationError::io("the sandbox cannot be started");
        let (files, pipes) = self.files(&job.input).map_err(cannot)?;
        Ok(Started { process: self.hand(waiting, order, &files, &job.profile.limits)?, pipes })
    }

    /// The standard files of a program, and our ends of them.
    pub(crate) fn files(&self, input: &Input) -> io::Result<([OwnedFd; 3], Pipes)> {
        let (stdin, to_stdin) = match input {
            Input::Empty => (self.nothing()?, None),
            Input::Bytes(_) | Input::Piped => {
                let (theirs, ours) = io::pipe()?;
                (OwnedFd::from(theirs), Some(OwnedFd::from(ours)))
            }
        };
        let (from_stdout, stdout) = io::pipe()?;
        let (from_stderr, stderr) = io::pipe()?;
        let pipes = Pipes {
            stdin: to_stdin.map(|end| ChildStdin::from_std(end.into())).transpose()?,
            stdout: Some(ChildStdout::from_std(OwnedFd::from(from_stdout).into())?),
            stderr: Some(ChildStderr::from_std(OwnedFd::from(from_stderr).into())?),
        };
        Ok(([stdin, stdout.into(), stderr.into()], pipes))
    }

    /// A file with nothing in it.
    pub(crate) fn nothing(&self) -> io::Result<OwnedFd> {
        Ok(self.nothing.try_clone()?.into())
    }

    /// Hands an order and its standard files to the one that waits, and has others made meanwhile.
    pub(crate) fn hand(
        &self,
        waiting: Waiting,
        order: &Order,
        files: &[OwnedFd; 3],
        limits: &Limits,
    ) -> Result<Process, IsolationError> {
        let handed = order.send(waiting.line.as_fd(), files);
        let started = handed.and_then(|()| Process::watched(waiting.made));
        if let Ok(mut line) = self.line.try_lock()
            && let Some(opened) = line.as_mut()
            && self.ask_for_more(opened, limits).is_err()
        {
            // The next job starts another one.
            *line = None;
        }
        started.map_err(IsolationError::io("the sandbox cannot be started"))
    }

    /// Asks for one in place of the one that was taken, and for one more while there are few. An error means that there is no
    /// launcher.
    fn ask_for_more(&self, line: &mut Line, limits: &Limits) -> io::Result<()> {
        for _ in 0..STARTERS_WAITING_MAX.saturating_sub(line.asked.len()).min(2) {
            let Ok(room) = Room::make(&self.scratch, &self.cgroups, limits) else { break };
            line.ask(self.spaces, room)?;
        }
        Ok(())
    }

    async fn connect(&self) -> Result<Line, IsolationError> {
        let (ours, theirs) = pair().map_err(IsolationError::io("no line to a launcher"))?;
        let mut command = Command::new(&self.launcher.program);
        command.args(&self.launcher.args).arg(STARTER).env_clear().current_dir("/");
        command.stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null());
        let launcher = self.spawner.spawn(command).await?;
        Ok(Line { end: ours, asked: VecDeque::new(), _launcher: launcher })
    }
}

impl Line {
    /// Asks for a process that waits in the groups of a room.
    fn ask(&mut self, spaces: Spaces, room: Room) -> io::Result<()> {
        let mut doors = vec![spaces.letter()];
        for door in room.cgroup.doors() {
            doors.push(BETWEEN);
            doors.extend_from_slice(door.as_os_str().as_encoded_bytes());
        }
        if doors.len() > MESSAGE_BYTES_MAX {
            return Err(io::Error::other("the paths of control groups are too long"));
        }
        send(self.end.as_fd(), &doors, &[])?;
        self.asked.push_back(room);
        Ok(())
    }

    /// The next one of those that were asked for.
    fn ready(&mut self) -> io::Result<(Waiting, Room)> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let room = self.asked.pop_front().ok_or_else(gone)?;
        let patience = Timespec {
            tv_sec: KILL_GRACE.as_secs().cast_signed(),
            tv_nsec: KILL_GRACE.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(&self.end, PollFlags::IN)];
        if poll(&mut fds, Some(&patience))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let (number, mut files) = receive(self.end.as_fd())?.ok_or_else(gone)?;
        let number = number.try_into().map_err(|_number| gone())?;
        let made = Pid::from_raw(i32::from_ne_bytes(number)).and_then(Made::of);
        match (made, files.pop()) {
            (Some(made), Some(line)) if !made.has_ended() => Ok((Waiting { made, line }, room)),
            _ => Err(gone()),
        }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // The launcher ends after the last one that it was asked for. They are children of ours, which nobody else would fetch.
        shutdown(&self.end, Shutdown::Write).unwrap_or_default();
        while !self.asked.is_empty() {
            drop(self.ready());
        }
    }
}
