//! Descendants of a process under test.
//!
//! They are found by their process group, or by a tag in their environment if they have left the group.

use std::collections::HashSet;
use std::fs;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::{Process, ProcessError, TAG_VARIABLE};

impl Process {
    /// Returns the ids of the process and its living descendants, sorted.
    pub fn descendants(&self) -> Vec<u32> {
        let ids = members(self.id, &self.tag);
        ids.into_iter().map(|id| id.as_raw_nonzero().get().unsigned_abs()).collect()
    }

    /// Waits until the process and all descendants have exited. Returns an error after the timeout.
    pub async fn wait_for_exit_of_all(&self, wait: Duration) -> Result<(), ProcessError> {
        let (leader, tag) = (self.id, self.tag.clone());
        let gone = tokio::task::spawn_blocking(move || wait_blocking(leader, &tag, wait));
        match gone.await {
            Ok(true) => Ok(()),
            _ => {
                let descendants = self.descendants();
                Err(self.error(format!("processes {descendants:?} still live after {wait:?}")))
            }
        }
    }
}

/// Blocks until all members have exited. Returns false after the timeout.
fn wait_blocking(leader: Pid, tag: &str, wait: Duration) -> bool {
    let deadline = Instant::now() + wait;
    while let Some(member) = members(leader, tag).first() {
        let Some(member) = open(*member, leader, tag) else { continue };
        let left = deadline.saturating_duration_since(Instant::now());
        // A process descriptor is readable once the process has exited.
        let mut ends = [PollFd::new(&member, PollFlags::IN)];
        let ended = Timespec::try_from(left).map(|left| poll(&mut ends, Some(&left)));
        if !matches!(ended, Ok(Ok(1..) | Err(Errno::INTR))) {
            return false;
        }
    }
    true
}

/// Kills all living members, including members that start during the call.
pub(super) fn kill(leader: Pid, tag: &str) {
    let mut killed = HashSet::new();
    loop {
        // A member may have started another one before its death, so this repeats until no new member is found.
        let mut members = members(leader, tag);
        members.retain(|id| killed.insert(*id));
        if members.is_empty() {
            return;
        }
        for member in members.into_iter().filter_map(|id| open(id, leader, tag)) {
            let _gone = pidfd_send_signal(member, Signal::KILL).is_err();
        }
    }
}

/// Opens a process descriptor of a member. `None` if the id is unused or belongs to a process that is not a member.
fn open(id: Pid, leader: Pid, tag: &str) -> Option<OwnedFd> {
    let member = pidfd_open(id, PidfdFlags::empty()).ok()?;
    is_member(id, leader, tag).then_some(member)
}

/// Returns the ids of the living processes in the leader's group or with the tag, sorted.
fn members(leader: Pid, tag: &str) -> Vec<Pid> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let ids = names.filter_map(|name| Pid::from_raw(name.parse().ok()?));
    let mut members: Vec<_> = ids.filter(|id| is_member(*id, leader, tag)).collect();
    members.sort_unstable_by_key(|id| id.as_raw_nonzero());
    members
}

/// Returns true if the process lives and is in the leader's group or has the tag.
fn is_member(id: Pid, leader: Pid, tag: &str) -> bool {
    let id = id.as_raw_nonzero();
    let Ok(stat) = fs::read_to_string(format!("/proc/{id}/stat")) else { return false };
    // The name of the program is in parentheses and may contain any character.
    let mut fields = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace();
    let (state, group) = (fields.next(), fields.nth(1));
    if matches!(state, None | Some("Z" | "X")) {
        return false;
    }
    let has_tag = |environment: Vec<u8>| {
        let mut entries = environment.split(|byte| *byte == 0);
        entries.any(|entry| entry == format!("{TAG_VARIABLE}={tag}").as_bytes())
    };
    group == Some(leader.as_raw_nonzero().to_string().as_str())
        || fs::read(format!("/proc/{id}/environ")).is_ok_and(has_tag)
}
