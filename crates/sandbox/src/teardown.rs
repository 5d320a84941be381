//! Removal of a job's resources at its end.
//!
//! Invariant: processes end first, then the control groups are removed, then the directory. No step needs an async
//! runtime, so the teardown also works during shutdown.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use nix::mount::{MntFlags, umount2};
use parking_lot::Mutex;
use rustix::process::{Pid, Signal, pidfd_send_signal};
use serde::Deserialize;

use crate::egress::ProxyListener;
use crate::limits::{KILL_GRACE, TERM_GRACE};
use crate::linux::cgroup::Cgroup;
use crate::linux::child_process::ChildProcess;
use crate::linux::process_tree;
use crate::linux::rootfs::Rootfs;
use crate::linux::scratch_dir::JobDir;
use crate::warm::fork_server::JobResources;
use crate::warm::spawn_thread::SpawnThread;

/// Role of the process that the backend started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RootProcess {
    /// The program itself.
    Program,
    /// A supervisor that ends after the program.
    Supervisor,
}

/// The resources of a job.
#[derive(Debug)]
pub(crate) struct Teardown {
    pub(crate) root_process: RootProcess,
    pub(crate) cgroup: Option<Cgroup>,
    pub(crate) dir: Option<JobDir>,
    /// Root file system of the sandbox.
    pub(crate) root: Option<Arc<Rootfs>>,
    /// Command that removes the container, if the job runs in one.
    pub(crate) cleanup: Option<CleanupCommand>,
    /// Proxy socket of the job.
    pub(crate) proxy: Option<ProxyListener>,
    /// Keeps the thread alive that started the process.
    pub(crate) spawn_thread: Arc<SpawnThread>,
}

/// A command that removes resources that signals do not reach.
#[derive(Debug, Clone)]
pub(crate) struct CleanupCommand {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    /// State directory of the runtime, which an interrupted creation leaves behind.
    pub(crate) dir: Option<PathBuf>,
}

/// A process id with an open handle of its process.
#[derive(Debug)]
pub(crate) struct PidFd {
    pub(crate) pid: Pid,
    pub(crate) handle: OwnedFd,
}

/// One line of the status that the sandbox reports.
#[derive(Deserialize)]
struct StatusLine {
    #[serde(rename = "child-pid")]
    child: Option<i32>,
    #[serde(rename = "exit-code")]
    exit: Option<i32>,
}

/// Status file of the sandbox, in the directory of its job.
pub(crate) const STATUS_FILE: &str = "status";
/// File in the directory of a job that exists once the sandbox is set up.
pub(crate) const READY_MARKER_FILE: &str = "pid";

impl Teardown {
    /// Creates the teardown of a sandbox whose processes end together.
    pub(crate) fn of_sandbox(resources: JobResources, spawn_thread: Arc<SpawnThread>) -> Self {
        let JobResources { dir, cgroup, .. } = resources;
        Self {
            root_process: RootProcess::Supervisor,
            cgroup: Some(cgroup),
            dir: Some(dir),
            root: None,
            cleanup: None,
            proxy: None,
            spawn_thread,
        }
    }

    /// Sends SIGTERM to the program and its descendants.
    pub(crate) fn terminate(&self, pidfd: &PidFd) {
        if self.root_process == RootProcess::Program {
            pidfd_send_signal(&pidfd.handle, Signal::TERM).unwrap_or_default();
        }
        process_tree::signal_descendants(pidfd.pid, Signal::TERM);
    }

    /// Kills all processes. Blocks until they have ended, for a bounded time.
    pub(crate) fn kill(&self, pidfd: &PidFd) {
        let send = |signal| pidfd_send_signal(&pidfd.handle, signal).unwrap_or_default();
        // A stopped process cannot start new ones.
        send(Signal::STOP);
        let is_clear = process_tree::kill_descendants(pidfd.pid);
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        if self.root_process == RootProcess::Supervisor && is_clear {
            // The supervisor reaps the processes that have ended.
            send(Signal::CONT);
            if process_tree::ended_within(&pidfd.handle, KILL_GRACE) {
                return;
            }
        }
        send(Signal::KILL);
        if !process_tree::ended_within(&pidfd.handle, KILL_GRACE) {
            tracing::warn!(
                pid = pidfd.pid.as_raw_nonzero(),
                "a sandbox does not end after SIGKILL"
            );
        }
    }

    /// Returns the first process inside the sandbox, if it still exists. It ends shortly after the process that the
    /// backend started.
    pub(crate) fn init_process(&self) -> Option<OwnedFd> {
        self.status().child.and_then(Pid::from_raw).and_then(process_tree::open_pidfd)
    }

    /// Removes the remaining resources if that is fast. Otherwise returns the teardown, for [`Teardown::clear`] on
    /// another thread.
    pub(crate) fn clear_inline(mut self) -> Option<Self> {
        let is_small = self.cleanup.is_none()
            && self.cgroup.as_mut().is_none_or(Cgroup::remove_empty)
            && self.dir.as_ref().is_none_or(JobDir::is_small);
        if !is_small {
            return Some(self);
        }
        drop(self.proxy.take());
        None
    }

    /// Removes the remaining resources: groups, container, directories. The processes have ended or are about to end.
    /// Blocks.
    pub(crate) fn clear(mut self) {
        drop(self.proxy.take());
        if let Some(cleanup) = &self.cleanup {
            cleanup.run();
        }
        if let Some(init_process) = self.init_process() {
            process_tree::ended_within(&init_process, KILL_GRACE);
        }
        if let Some(cgroup) = self.cgroup {
            cgroup.remove();
        }
        drop(self.root);
        drop(self.dir);
        drop(self.spawn_thread);
    }

    /// Returns the exit code that the sandbox reported. A reported code implies that the setup succeeded.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        self.status().exit
    }

    /// Returns true if the ready marker exists.
    pub(crate) fn has_ready_marker(&self) -> bool {
        self.dir.as_ref().is_some_and(|dir| dir.path().join(READY_MARKER_FILE).exists())
    }

    /// Returns the combined lines of the status file. Both fields are `None` if there is no file.
    fn status(&self) -> StatusLine {
        let empty = StatusLine { child: None, exit: None };
        let Some(dir) = &self.dir else { return empty };
        let text = fs::read_to_string(dir.path().join(STATUS_FILE)).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str::<StatusLine>(line).ok()).fold(
            empty,
            |sum, line| StatusLine {
                child: sum.child.or(line.child),
                exit: sum.exit.or(line.exit),
            },
        )
    }
}

/// Removes the state of a runtime. A runtime that was killed during the creation of a container may have left a mount
/// in it.
fn remove_runtime_state(dir: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
        // Unmounting fails for an entry that is not a mount point.
        umount2(&entry.path(), MntFlags::MNT_DETACH).unwrap_or_default();
    }
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl CleanupCommand {
    /// Returns true if the state directory still exists.
    pub(crate) fn is_needed(&self) -> bool {
        self.dir.as_ref().is_some_and(|dir| dir.exists())
    }

    /// Runs the command and waits for it. A failure is logged.
    pub(crate) fn run(&self) {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.args).stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        if let Err(error) = command.status() {
            tracing::warn!(%error, "cannot run the command that removes a container");
        }
        if let Some(dir) = &self.dir
            && let Err(error) = remove_runtime_state(dir)
        {
            tracing::warn!(%error, "cannot remove the runtime state of a container");
        }
    }
}

/// Ends a dropped job on a separate thread.
pub(crate) fn finish_in_background(teardown: Teardown, pidfd: PidFd, process: ChildProcess) {
    let work = Arc::new(Mutex::new(Some((teardown, pidfd, process))));
    let taken = Arc::clone(&work);
    let built = std::thread::Builder::new().name("sandbox-end".to_owned()).spawn(move || {
        finish(&taken);
    });
    if let Err(error) = built {
        // The process limit may prevent a new thread. The work then runs on the current one.
        tracing::warn!(%error, "cannot start a thread that ends a sandbox");
        finish(&work);
    }
}

/// Ends the program with SIGTERM, then SIGKILL after a grace period, reaps it and removes its resources. Does nothing
/// on a second call.
fn finish(work: &Mutex<Option<(Teardown, PidFd, ChildProcess)>>) {
    let taken = work.lock().take();
    let Some((teardown, pidfd, process)) = taken else { return };
    teardown.terminate(&pidfd);
    if !process_tree::ended_within(&pidfd.handle, TERM_GRACE) {
        teardown.kill(&pidfd);
    }
    // No other code reaps the process soon.
    process.reap();
    teardown.clear();
}
