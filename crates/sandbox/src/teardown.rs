//! What is left to do when a job ends, however it ends.
//!
//! Invariant: the processes go first, then the control groups, then the directory. Nothing here needs a runtime, so it also
//! works when one is going down.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nix::mount::{MntFlags, umount2};
use rustix::process::{Pid, Signal, pidfd_send_signal};
use serde::Deserialize;

use crate::egress::Entrance;
use crate::limits::{KILL_GRACE, TERM_GRACE};
use crate::linux::cgroup::Cgroup;
use crate::linux::child_process::Process;
use crate::linux::process_tree;
use crate::linux::rootfs::Root;
use crate::linux::scratch_dir::JobDir;
use crate::warm::fork_server::Room;
use crate::warm::spawn_thread::Spawner;

/// Who the process that we started is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leader {
    /// The program itself.
    Program,
    /// One of ours that watches over the program and ends after it.
    Watcher,
}

/// What a job leaves behind.
#[derive(Debug)]
pub(crate) struct Remains {
    pub(crate) leader: Leader,
    pub(crate) cgroup: Option<Cgroup>,
    pub(crate) dir: Option<JobDir>,
    /// The root that it sees.
    pub(crate) root: Option<Arc<Root>>,
    /// A container of this name, and the command that ends it.
    pub(crate) last: Option<LastCommand>,
    /// Its entrance to the proxy.
    pub(crate) entrance: Option<Entrance>,
    /// Whoever started it must live as long as it does.
    pub(crate) spawner: Arc<Spawner>,
}

/// A command that takes away what no signal reaches.
#[derive(Debug, Clone)]
pub(crate) struct LastCommand {
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<String>,
    /// A directory that it leaves if whoever made it was killed too soon.
    pub(crate) dir: Option<PathBuf>,
}

/// A process that is held by a handle.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) pid: Pid,
    pub(crate) handle: OwnedFd,
}

/// One line of what the sandbox tells about itself.
#[derive(Deserialize)]
struct Told {
    #[serde(rename = "child-pid")]
    child: Option<i32>,
    #[serde(rename = "exit-code")]
    exit: Option<i32>,
}

/// The file in a job's directory in which the sandbox tells about itself.
pub(crate) const STATUS_FILE: &str = "status";
/// The file in a job's directory that is there once the sandbox was set up.
pub(crate) const SIGN_FILE: &str = "pid";

impl Remains {
    /// The remains of a sandbox that ends as a whole.
    pub(crate) fn of_sandbox(room: Room, spawner: Arc<Spawner>) -> Self {
        let Room { dir, cgroup, .. } = room;
        Self {
            leader: Leader::Watcher,
            cgroup: Some(cgroup),
            dir: Some(dir),
            root: None,
            last: None,
            entrance: None,
            spawner,
        }
    }

    /// Asks the program to end.
    pub(crate) fn ask(&self, held: &Held) {
        if self.leader == Leader::Program {
            pidfd_send_signal(&held.handle, Signal::TERM).unwrap_or_default();
        }
        process_tree::signal_below(held.pid, Signal::TERM);
    }

    /// Ends everything. Blocks until it is gone, for a bounded time.
    pub(crate) fn end(&self, held: &Held) {
        let send = |signal| pidfd_send_signal(&held.handle, signal).unwrap_or_default();
        // Who is stopped starts nothing new meanwhile.
        send(Signal::STOP);
        let is_clear = process_tree::kill_below(held.pid);
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill();
        }
        if self.leader == Leader::Watcher && is_clear {
            // It fetches those that have ended, so that nobody else has to.
            send(Signal::CONT);
            if process_tree::ended_within(&held.handle, KILL_GRACE) {
                return;
            }
        }
        send(Signal::KILL);
        if !process_tree::ended_within(&held.handle, KILL_GRACE) {
            tracing::warn!(pid = held.pid.as_raw_nonzero(), "a sandbox does not end");
        }
    }

    /// The first process inside, where there still is one: it ends a little after the one that we started.
    pub(crate) fn inner(&self) -> Option<OwnedFd> {
        self.told().child.and_then(Pid::from_raw).and_then(process_tree::handle)
    }

    /// Takes away what is not a process, if that is a matter of moments; if not, gives it back.
    pub(crate) fn clear_at_once(mut self) -> Option<Self> {
        let is_little = self.last.is_none()
            && self.cgroup.as_mut().is_none_or(Cgroup::remove_empty)
            && self.dir.as_ref().is_none_or(JobDir::is_little);
        if !is_little {
            return Some(self);
        }
        drop(self.entrance.take());
        None
    }

    /// Takes away what is not a process. The processes have ended or are about to.
    pub(crate) fn clear(mut self) {
        drop(self.entrance.take());
        if let Some(last) = &self.last {
            last.run();
        }
        if let Some(inner) = self.inner() {
            process_tree::ended_within(&inner, KILL_GRACE);
        }
        if let Some(cgroup) = self.cgroup {
            cgroup.remove();
        }
        drop(self.root);
        drop(self.dir);
        drop(self.spawner);
    }

    /// The code with which the program ended, if the sandbox said so: then it had been set up.
    pub(crate) fn exit_code(&self) -> Option<i32> {
        self.told().exit
    }

    /// True if there is the sign that the sandbox was set up.
    pub(crate) fn is_signed(&self) -> bool {
        self.dir.as_ref().is_some_and(|dir| dir.path().join(SIGN_FILE).exists())
    }

    fn told(&self) -> Told {
        let nothing = Told { child: None, exit: None };
        let Some(dir) = &self.dir else { return nothing };
        let text = fs::read_to_string(dir.path().join(STATUS_FILE)).unwrap_or_default();
        text.lines().filter_map(|line| serde_json::from_str::<Told>(line).ok()).fold(
            nothing,
            |sum, line| Told { child: sum.child.or(line.child), exit: sum.exit.or(line.exit) },
        )
    }
}

/// Takes away what a runtime knows of a container. One that was killed while it made it may have left a copy of itself, mounted.
fn forget(dir: &Path) -> std::io::Result<()> {
    for entry in fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok) {
        // What is no mount says so.
        umount2(&entry.path(), MntFlags::MNT_DETACH).unwrap_or_default();
    }
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

impl LastCommand {
    /// True if there is still something to take away, as far as that can be seen.
    pub(crate) fn is_needed(&self) -> bool {
        self.dir.as_ref().is_some_and(|dir| dir.exists())
    }

    /// Runs it, and waits for it.
    pub(crate) fn run(&self) {
        let mut command = std::process::Command::new(&self.program);
        command.args(&self.args).stdin(std::process::Stdio::null());
        command.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
        if let Err(error) = command.status() {
            tracing::warn!(%error, "the command that takes a container away cannot be run");
        }
        if let Some(dir) = &self.dir
            && let Err(error) = forget(dir)
        {
            tracing::warn!(%error, "what a runtime knows of a container stays");
        }
    }
}

/// Ends a job that nobody waits for any more, on a thread of its own.
pub(crate) fn abandon(remains: Remains, held: Held, process: Process) {
    let work = Arc::new(Mutex::new(Some((remains, held, process))));
    let taken = Arc::clone(&work);
    let built = std::thread::Builder::new().name("sandbox-end".to_owned()).spawn(move || {
        finish(&taken);
    });
    if let Err(error) = built {
        // Whoever has started all the processes there may be gets no thread: then it is done here and now.
        tracing::warn!(%error, "no thread to end a sandbox");
        finish(&work);
    }
}

fn finish(work: &Mutex<Option<(Remains, Held, Process)>>) {
    let taken = work.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some((remains, held, process)) = taken else { return };
    remains.ask(&held);
    if !process_tree::ended_within(&held.handle, TERM_GRACE) {
        remains.end(&held);
    }
    // Fetches it: nobody else may do so soon.
    process.fetch();
    remains.clear();
}
