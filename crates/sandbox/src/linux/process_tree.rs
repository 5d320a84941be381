//! Process trees, read from `/proc`.
//!
//! Invariant: a signal is sent through a handle that was open when the process was verified to be a descendant of the
//! root. A reused process id is therefore never signalled.

use std::collections::VecDeque;
use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use provost_core::resource::IsolationMode;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::IsolationError;
use crate::limits::{KILL_ROUNDS_MAX, POLL_INTERVAL_MAX, STOP_ROUNDS_MAX, TREE_MAX};

/// A descendant of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Descendant {
    pub(crate) pid: Pid,
    parent: Pid,
}

/// Fails if the kernel does not list the children of a process.
pub(crate) fn check_supported(mode: IsolationMode) -> Result<(), IsolationError> {
    if children_listing_available() {
        return Ok(());
    }
    let reason = "the kernel does not list child processes".to_owned();
    Err(IsolationError::Unavailable { mode, reason })
}

/// Returns true if the kernel lists the children of a process.
fn children_listing_available() -> bool {
    fs::metadata("/proc/thread-self/children").is_ok()
}

/// Opens a handle of a process. `None` if the process no longer exists.
pub(crate) fn open_pidfd(pid: Pid) -> Option<OwnedFd> {
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// Returns all living descendants of a process. Zombies are excluded.
pub(crate) fn descendants(root: Pid) -> Vec<Descendant> {
    let mut descendants = Vec::new();
    let mut pending = VecDeque::from([root]);
    while let Some(parent) = pending.pop_front() {
        for pid in children(parent) {
            if descendants.len() >= TREE_MAX {
                return descendants;
            }
            pending.push_back(pid);
            if state(pid).is_some_and(|state| state.is_alive) {
                descendants.push(Descendant { pid, parent });
            }
        }
    }
    descendants
}

/// Returns the children of all threads of a process. Empty if the process is gone.
fn children(pid: Pid) -> Vec<Pid> {
    let number = pid.as_raw_nonzero();
    let Ok(threads) = fs::read_dir(format!("/proc/{number}/task")) else { return Vec::new() };
    let lists =
        threads.filter_map(|thread| fs::read_to_string(thread.ok()?.path().join("children")).ok());
    let numbers = |list: String| -> Vec<Pid> {
        list.split_ascii_whitespace().filter_map(|text| Pid::from_raw(text.parse().ok()?)).collect()
    };
    lists.flat_map(numbers).collect()
}

/// Parent and state of a process.
struct ProcessTreeState {
    parent: i32,
    is_alive: bool,
    is_stopped: bool,
}

/// Returns the state of a process. `None` if it is gone.
fn state(pid: Pid) -> Option<ProcessTreeState> {
    let text = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The process name before the bracket may itself contain brackets.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let (is_alive, is_stopped) = (!matches!(state, "Z" | "X"), matches!(state, "T" | "t"));
    Some(ProcessTreeState { parent: fields.next()?.parse().ok()?, is_alive, is_stopped })
}

/// Returns the start time of a process in clock ticks since boot. Start time and process id together identify a process
/// uniquely.
pub(crate) fn start_time(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Returns the number of processes and threads of a user on this machine.
pub(crate) fn tasks_of(user: u32) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let own = entries.flatten().filter(|entry| entry.metadata().is_ok_and(|it| it.uid() == user));
    let threads =
        own.filter_map(|entry| Some(fs::read_dir(entry.path().join("task")).ok()?.count()));
    threads.map(|count| count as u64).sum()
}

/// Signals a process if it still has the same parent. Does nothing if it has ended.
pub(crate) fn signal(seen: Descendant, signal: Signal) {
    let Some(pidfd) = open_pidfd(seen.pid) else { return };
    let is_there =
        state(seen.pid).is_some_and(|state| state.parent == seen.parent.as_raw_nonzero().get());
    if is_there && let Err(error) = pidfd_send_signal(&pidfd, signal) {
        tracing::trace!(%error, "a process of a sandbox has already ended");
    }
}

/// Signals all descendants of a process.
pub(crate) fn signal_descendants(root: Pid, kind: Signal) {
    for seen in descendants(root) {
        signal(seen, kind);
    }
}

/// Kills all descendants of a process. Returns true if none is left, false if some remain after several rounds.
///
/// A tree that forks faster than it is killed is stopped first: a stopped process cannot fork, so the number of running
/// processes decreases.
pub(crate) fn kill_descendants(root: Pid) -> bool {
    for round in 0..KILL_ROUNDS_MAX {
        let descendants = descendants(root);
        if descendants.is_empty() {
            return true;
        }
        let is_running =
            |seen: &&Descendant| state(seen.pid).is_some_and(|state| !state.is_stopped);
        let running: Vec<_> = descendants.iter().filter(is_running).copied().collect();
        if (1..STOP_ROUNDS_MAX).contains(&round) && !running.is_empty() {
            running.into_iter().for_each(|seen| signal(seen, Signal::STOP));
            continue;
        }
        for seen in descendants {
            signal(seen, Signal::KILL);
        }
        if round >= STOP_ROUNDS_MAX {
            std::thread::sleep(POLL_INTERVAL_MAX);
        }
    }
    false
}

/// Waits until a process has ended. Returns false after `max_wait`.
pub(crate) fn ended_within(pidfd: &OwnedFd, max_wait: Duration) -> bool {
    let until = Instant::now() + max_wait;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left =
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let mut fds = [PollFd::new(pidfd, PollFlags::IN)];
        match poll(&mut fds, Some(&left)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
