//! Processes and those below them, as the kernel tells them.
//!
//! Invariant: a signal goes to a process that was seen to be below the root when its handle was already held, so a number that
//! somebody else has got meanwhile is never signalled.

use std::collections::VecDeque;
use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use provost_core::resource::IsolationMode;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::IsolationError;
use crate::limits::{KILL_ROUNDS_MAX, LOOK, STOP_ROUNDS_MAX, TREE_MAX};

/// A process below another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Below {
    pub(crate) pid: Pid,
    parent: Pid,
}

/// Refuses a machine whose kernel does not list the processes that a program has started.
pub(crate) fn check(mode: IsolationMode) -> Result<(), IsolationError> {
    if is_told() {
        return Ok(());
    }
    let why = "the kernel does not tell which processes a program has started".to_owned();
    Err(IsolationError::Unavailable { mode, why })
}

/// True if the kernel tells which processes are below one.
fn is_told() -> bool {
    fs::metadata("/proc/thread-self/children").is_ok()
}

/// A handle on a process; nothing if there is no such process any more.
pub(crate) fn handle(pid: Pid) -> Option<OwnedFd> {
    pidfd_open(pid, PidfdFlags::empty()).ok()
}

/// All processes below one, those that have ended and were not fetched yet left out.
pub(crate) fn below(root: Pid) -> Vec<Below> {
    let mut found = Vec::new();
    let mut waiting = VecDeque::from([root]);
    while let Some(parent) = waiting.pop_front() {
        for pid in children(parent) {
            if found.len() >= TREE_MAX {
                return found;
            }
            waiting.push_back(pid);
            if state(pid).is_some_and(|state| state.is_alive) {
                found.push(Below { pid, parent });
            }
        }
    }
    found
}

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

struct State {
    parent: i32,
    is_alive: bool,
    is_stopped: bool,
}

fn state(pid: Pid) -> Option<State> {
    let text = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
    // The name before it may hold anything, also a bracket.
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace();
    let word = fields.next()?;
    let (is_alive, is_stopped) = (!matches!(word, "Z" | "X"), matches!(word, "T" | "t"));
    Some(State { parent: fields.next()?.parse().ok()?, is_alive, is_stopped })
}

/// When a process was started, in ticks since the machine was; with its number it names one process for ever.
pub(crate) fn started(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = text.rsplit_once(')')?;
    rest.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Processes and threads of a user on this machine.
pub(crate) fn tasks_of(user: u32) -> u64 {
    use std::os::unix::fs::MetadataExt as _;
    let Ok(entries) = fs::read_dir("/proc") else { return 0 };
    let own = entries.flatten().filter(|entry| entry.metadata().is_ok_and(|it| it.uid() == user));
    let threads =
        own.filter_map(|entry| Some(fs::read_dir(entry.path().join("task")).ok()?.count()));
    threads.map(|count| count as u64).sum()
}

/// Signals a process if it is still where it was seen.
pub(crate) fn signal(seen: Below, signal: Signal) {
    let Some(held) = handle(seen.pid) else { return };
    let is_there =
        state(seen.pid).is_some_and(|state| state.parent == seen.parent.as_raw_nonzero().get());
    if is_there && let Err(error) = pidfd_send_signal(&held, signal) {
        tracing::trace!(%error, "a process of a sandbox is gone already");
    }
}

/// Signals everything below a process.
pub(crate) fn signal_below(root: Pid, what: Signal) {
    for seen in below(root) {
        signal(seen, what);
    }
}

/// Kills everything below a process, until nothing is left there.
///
/// What forks faster than it is killed is stopped first: who is stopped forks no more, and those that are not become fewer.
pub(crate) fn kill_below(root: Pid) -> bool {
    for round in 0..KILL_ROUNDS_MAX {
        let found = below(root);
        if found.is_empty() {
            return true;
        }
        let is_restless = |seen: &&Below| state(seen.pid).is_some_and(|state| !state.is_stopped);
        let restless: Vec<_> = found.iter().filter(is_restless).copied().collect();
        if (1..STOP_ROUNDS_MAX).contains(&round) && !restless.is_empty() {
            restless.into_iter().for_each(|seen| signal(seen, Signal::STOP));
            continue;
        }
        for seen in found {
            signal(seen, Signal::KILL);
        }
        if round >= STOP_ROUNDS_MAX {
            std::thread::sleep(LOOK);
        }
    }
    false
}

/// Waits until a process has ended; false if it takes longer.
pub(crate) fn ended_within(held: &OwnedFd, patience: Duration) -> bool {
    let until = Instant::now() + patience;
    loop {
        let left = until.saturating_duration_since(Instant::now());
        let left =
            Timespec { tv_sec: left.as_secs().cast_signed(), tv_nsec: left.subsec_nanos().into() };
        let mut fds = [PollFd::new(held, PollFlags::IN)];
        match poll(&mut fds, Some(&left)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => {}
            Err(_) => return false,
        }
    }
}
