//! The processes that a process under test has started, wherever they have gone.
//!
//! They are found by their process group, and by a mark in their environment if they have left it.

use std::collections::HashSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{MARK_VARIABLE, Process, ProcessError};

impl Process {
    /// The ids of itself and all it has started, as far as they live; sorted.
    pub fn family(&self) -> Vec<u32> {
        let ids = members(self.id, &self.mark);
        ids.into_iter().map(|id| id.as_raw_nonzero().get().unsigned_abs()).collect()
    }

    /// Waits until itself and all it has started are gone.
    pub async fn wait_until_gone(&self, wait: Duration) -> Result<(), ProcessError> {
        let (leader, mark) = (self.id, self.mark.clone());
        let gone = tokio::task::spawn_blocking(move || gone(leader, &mark, wait));
        match gone.await {
            Ok(true) => Ok(()),
            _ => {
                let family = self.family();
                Err(self.error(format!("processes {family:?} still live after {wait:?}")))
            }
        }
    }
}

/// Blocks until nobody lives; false if that takes too long.
fn gone(leader: Pid, mark: &str, wait: Duration) -> bool {
    let deadline = Instant::now() + wait;
    while let Some(member) = members(leader, mark).first() {
        let Some(member) = open(*member, leader, mark) else { continue };
        let left = deadline.saturating_duration_since(Instant::now());
        // A process descriptor is readable once the process has ended.
        let mut ends = [PollFd::new(&member, PollFlags::IN)];
        let ended = Timespec::try_from(left).map(|left| poll(&mut ends, Some(&left)));
        if !matches!(ended, Ok(Ok(1..) | Err(Errno::INTR))) {
            return false;
        }
    }
    true
}

/// Kills all members that live.
pub(super) fn kill(leader: Pid, mark: &str) {
    let mut killed = HashSet::new();
    loop {
        // A member may have started another one before it died, so this looks again until it finds nobody new.
        let mut members = members(leader, mark);
        members.retain(|id| killed.insert(*id));
        if members.is_empty() {
            return;
        }
        for member in members.into_iter().filter_map(|id| open(id, leader, mark)) {
            let _gone = pidfd_send_signal(member, Signal::KILL).is_err();
        }
    }
}

/// Opens a member by its id; none if the id belongs to nobody or to another process by now.
fn open(id: Pid, leader: Pid, mark: &str) -> Option<OwnedFd> {
    let member = pidfd_open(id, PidfdFlags::empty()).ok()?;
    is_member(id, leader, mark).then_some(member)
}

fn members(leader: Pid, mark: &str) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let ids = names.filter_map(|name| Pid::from_raw(name.parse().ok()?));
    let mut members: Vec<_> = ids.filter(|id| is_member(*id, leader, mark)).collect();
    members.sort_unstable_by_key(|id| id.as_raw_nonzero());
    members
}

fn is_member(id: Pid, leader: Pid, mark: &str) -> bool {
    let id = id.as_raw_nonzero();
    let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else { return false };
    // The name of the program is in parentheses and may contain anything.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let (state, group) = (fields.next(), fields.nth(1));
    if matches!(state, None | Some("Z" | "X")) {
        return false;
    }
    let is_marked = |environment: Vec<u8>| {
        let mut entries = environment.split(|byte| *byte == 0);
        entries.any(|entry| entry == format!("{MARK_VARIABLE}={mark}").as_bytes())
    };
    group == Some(leader.as_raw_nonzero().to_string().as_str())
        || fs::read(format!("/proc/{id}/environ")).is_ok_and(is_marked)
}
