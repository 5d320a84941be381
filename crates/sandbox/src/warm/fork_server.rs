//! Client of the fork server, which keeps launcher processes ready for the next jobs.
//!
//! Starting a program from a large process takes time in proportion to its memory, and a shell in between adds the
//! start of another program. The launcher is therefore started once and creates processes that wait for orders: see
//! [`crate::launcher::fork_server`]. If the fork server dies, the next job starts a new one; running jobs do not need
//! it, because their parent is this process. Several processes are ready at a time, because the kernel needs longer to
//! move one into its control groups than a short job runs.
//!
//! Invariant: this process holds a handle of each ready process before it sends an order, so a dropped caller leaks no
//! process.

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

use crate::command::{SandboxCommand, Stdin};
use crate::error::IsolationError;
use crate::launcher::fork_server::{
    LinuxNamespaces, MESSAGE_BYTES_MAX, SEPARATOR, receive, send, socket_pair,
};
use crate::launcher::order::LaunchOrder;
use crate::launcher::{FORK_SERVER_ARG, Launcher};
use crate::limits::{FORK_SERVER_ATTEMPTS_MAX, KILL_GRACE, READY_PROCESSES_MAX};
use crate::linux::cgroup::{Cgroup, Cgroups};
use crate::linux::child_process::{ChildProcess, ForkedChild, StartedProcess, StdPipes};
use crate::linux::layout::DEVICES;
use crate::linux::scratch_dir::{JobDir, ScratchDir};
use crate::profile::ResourceLimits;
use crate::warm::spawn_thread::SpawnThread;

/// Keeps processes ready for the next jobs.
#[derive(Debug)]
pub(crate) struct ForkServer {
    /// Must be dropped before the values below.
    line: Mutex<Option<ForkServerPipe>>,
    launcher: Launcher,
    spawn_thread: Arc<SpawnThread>,
    scratch: ScratchDir,
    cgroups: Cgroups,
    namespaces: LinuxNamespaces,
    dev_null: File,
}

/// Connection to the fork server.
#[derive(Debug)]
struct ForkServerPipe {
    end: OwnedFd,
    /// Resources of the requested processes, in the order of the replies.
    requested: VecDeque<JobResources>,
    /// Dropped with the connection, which kills the fork server.
    _launcher: Child,
}

/// Resources of a job, created before its command is known.
#[derive(Debug)]
pub(crate) struct JobResources {
    pub(crate) dir: JobDir,
    pub(crate) cgroup: Cgroup,
    limits: ResourceLimits,
}

/// A launcher process that waits for its order in the control groups of its job.
#[derive(Debug)]
pub(crate) struct ReadyProcess {
    child: ForkedChild,
    line: OwnedFd,
}

impl JobResources {
    /// Creates the directory and the control groups of a job.
    pub(crate) fn create(
        scratch: &ScratchDir,
        cgroups: &Cgroups,
        limits: &ResourceLimits,
    ) -> Result<Self, IsolationError> {
        let dir = scratch
            .create_job_dir()
            .map_err(IsolationError::io("cannot create the directory of a job"))?;
        let cgroup = cgroups.create(dir.name());
        let cgroup =
            cgroup.map_err(IsolationError::io("cannot create the control group of a job"))?;
        let limited = cgroups.set_limits(dir.name(), limits);
        limited.map_err(IsolationError::io("cannot create the control group of a job"))?;
        Ok(Self { dir, cgroup, limits: limits.clone() })
    }
}

impl ForkServer {
    /// Creates the connection's owner. The fork server process starts with the first request.
    pub(crate) fn open(
        launcher: Launcher,
        spawn_thread: Arc<SpawnThread>,
        scratch: ScratchDir,
        cgroups: Cgroups,
        namespaces: LinuxNamespaces,
    ) -> Result<Self, IsolationError> {
        let dev_null =
            File::open(DEVICES[0]).map_err(IsolationError::io("cannot open /dev/null"))?;
        Ok(Self {
            line: Mutex::new(None),
            launcher,
            spawn_thread,
            scratch,
            cgroups,
            namespaces,
            dev_null,
        })
    }

    /// Returns a ready process. Waits only if none is ready yet.
    pub(crate) async fn acquire(
        &self,
        limits: &ResourceLimits,
    ) -> Result<(ReadyProcess, JobResources), IsolationError> {
        let mut line = self.line.lock().await;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let mut opened = match line.take() {
                Some(opened) => opened,
                None => self.connect().await?,
            };
            let available = match opened.requested.is_empty() {
                false => Ok(()),
                true => opened.request(
                    self.namespaces,
                    JobResources::create(&self.scratch, &self.cgroups, limits)?,
                ),
            };
            match available.and_then(|()| opened.next_ready()) {
                Ok((process, resources)) => {
                    *line = Some(opened);
                    if resources.limits != *limits {
                        let limited = self.cgroups.set_limits(resources.dir.name(), limits);
                        limited.map_err(IsolationError::io(
                            "cannot create the control group of a job",
                        ))?;
                    }
                    return Ok((process, resources));
                }
                // The fork server or the ready process was killed from outside.
                Err(_) if attempts < FORK_SERVER_ATTEMPTS_MAX => {}
                Err(error) => return Err(IsolationError::io("cannot start a sandbox")(error)),
            }
        }
    }

    /// Assigns a command to a ready process and requests new ones with the same limits. Returns the program with the
    /// pipes of its standard files.
    pub(crate) fn start(
        &self,
        process: ReadyProcess,
        order: &LaunchOrder,
        job: &SandboxCommand,
    ) -> Result<StartedProcess, IsolationError> {
        let cannot = IsolationError::io("cannot start the sandbox");
        let (files, pipes) = self.files(&job.input).map_err(cannot)?;
        Ok(StartedProcess {
            process: self.assign(process, order, &files, &job.profile.limits)?,
            pipes,
        })
    }

    /// Creates the standard files of a program and our ends of them.
    pub(crate) fn files(&self, input: &Stdin) -> io::Result<([OwnedFd; 3], StdPipes)> {
        let (stdin, to_stdin) = match input {
            Stdin::Empty => (self.dev_null()?, None),
            Stdin::Bytes(_) | Stdin::Piped => {
                let (theirs, ours) = io::pipe()?;
                (OwnedFd::from(theirs), Some(OwnedFd::from(ours)))
            }
        };
        let (from_stdout, stdout) = io::pipe()?;
        let (from_stderr, stderr) = io::pipe()?;
        let pipes = StdPipes {
            stdin: to_stdin.map(|end| ChildStdin::from_std(end.into())).transpose()?,
            stdout: Some(ChildStdout::from_std(OwnedFd::from(from_stdout).into())?),
            stderr: Some(ChildStderr::from_std(OwnedFd::from(from_stderr).into())?),
        };
        Ok(([stdin, stdout.into(), stderr.into()], pipes))
    }

    /// Returns an empty file.
    pub(crate) fn dev_null(&self) -> io::Result<OwnedFd> {
        Ok(self.dev_null.try_clone()?.into())
    }

    /// Sends an order and its standard files to a ready process, then requests new processes.
    pub(crate) fn assign(
        &self,
        process: ReadyProcess,
        order: &LaunchOrder,
        files: &[OwnedFd; 3],
        limits: &ResourceLimits,
    ) -> Result<ChildProcess, IsolationError> {
        let sent = order.send(process.line.as_fd(), files);
        let started = sent.and_then(|()| ChildProcess::from_forked(process.child));
        if let Ok(mut line) = self.line.try_lock()
            && let Some(opened) = line.as_mut()
            && self.refill(opened, limits).is_err()
        {
            // The next job starts a new fork server.
            *line = None;
        }
        started.map_err(IsolationError::io("cannot start the sandbox"))
    }

    /// Requests up to two processes while fewer than the maximum are ready or requested. An error means that the fork
    /// server is gone.
    fn refill(&self, line: &mut ForkServerPipe, limits: &ResourceLimits) -> io::Result<()> {
        for _ in 0..READY_PROCESSES_MAX.saturating_sub(line.requested.len()).min(2) {
            let Ok(resources) = JobResources::create(&self.scratch, &self.cgroups, limits) else {
                break;
            };
            line.request(self.namespaces, resources)?;
        }
        Ok(())
    }

    /// Starts the fork server process and connects to it.
    async fn connect(&self) -> Result<ForkServerPipe, IsolationError> {
        let (ours, theirs) =
            socket_pair().map_err(IsolationError::io("cannot create the control socket"))?;
        let mut command = Command::new(&self.launcher.program);
        command.args(&self.launcher.args).arg(FORK_SERVER_ARG).env_clear().current_dir("/");
        command.stdin(theirs).stdout(Stdio::null()).stderr(Stdio::null());
        let launcher = self.spawn_thread.spawn(command).await?;
        Ok(ForkServerPipe { end: ours, requested: VecDeque::new(), _launcher: launcher })
    }
}

impl ForkServerPipe {
    /// Requests a process that waits in the control groups of `resources`.
    fn request(&mut self, namespaces: LinuxNamespaces, resources: JobResources) -> io::Result<()> {
        let mut procs_files = vec![namespaces.code()];
        for procs_file in resources.cgroup.procs_files() {
            procs_files.push(SEPARATOR);
            procs_files.extend_from_slice(procs_file.as_os_str().as_encoded_bytes());
        }
        if procs_files.len() > MESSAGE_BYTES_MAX {
            return Err(io::Error::other("the control group paths are too long"));
        }
        send(self.end.as_fd(), &procs_files, &[])?;
        self.requested.push_back(resources);
        Ok(())
    }

    /// Waits for the process that was requested first. Fails if the fork server is gone.
    fn next_ready(&mut self) -> io::Result<(ReadyProcess, JobResources)> {
        let gone = || io::Error::from(io::ErrorKind::BrokenPipe);
        let resources = self.requested.pop_front().ok_or_else(gone)?;
        let max_wait = Timespec {
            tv_sec: KILL_GRACE.as_secs().cast_signed(),
            tv_nsec: KILL_GRACE.subsec_nanos().into(),
        };
        let mut fds = [PollFd::new(&self.end, PollFlags::IN)];
        if poll(&mut fds, Some(&max_wait))? == 0 {
            return Err(io::ErrorKind::TimedOut.into());
        }
        let (number, mut files) = receive(self.end.as_fd())?.ok_or_else(gone)?;
        let number = number.try_into().map_err(|_number| gone())?;
        let child = Pid::from_raw(i32::from_ne_bytes(number)).and_then(ForkedChild::of);
        match (child, files.pop()) {
            (Some(child), Some(line)) if !child.has_ended() => {
                Ok((ReadyProcess { child, line }, resources))
            }
            _ => Err(gone()),
        }
    }
}

impl Drop for ForkServerPipe {
    fn drop(&mut self) {
        // The fork server exits after the last requested process. The processes are children of this process, which
        // must reap them.
        shutdown(&self.end, Shutdown::Write).unwrap_or_default();
        while !self.requested.is_empty() {
            drop(self.next_ready());
        }
    }
}
