//! The process outside: bounds, name spaces, and the end of everything when its time has come.

use std::fs;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ExitCode;

use nix::sched::{CloneFlags, unshare};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};
use rustix::process::{
    Pid, WaitOptions, getegid, geteuid, getpid, getppid, set_child_subreaper,
    set_parent_process_death_signal, wait,
};

use super::fork::{self, Forked};
use super::order::{Order, Orders};
use super::{FAILED, READY_FILE, inner};
use crate::linux::process_tree;
use crate::teardown::STATUS_FILE;

/// The user and the group that the program is, where it has name spaces.
const NOBODY: u32 = 65_534;
/// How often it is looked for processes that nobody waits for.
const FETCH_EVERY: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

pub(super) fn run(orders: &Orders, order: &Order, owner: Option<Pid>) -> io::Result<ExitCode> {
    let gone = || io::Error::other("whoever started this has ended");
    let parent = owner.and_then(process_tree::handle).ok_or_else(gone)?;
    // From here on its end is seen, and is not ours at once: those below must go first.
    set_parent_process_death_signal(None)?;
    if getppid() != owner {
        return Err(gone());
    }
    if !orders.has_namespaces {
        set_child_subreaper(Some(getpid()))?;
    } else if orders.entrance.is_some() {
        raise_loopback()?;
    }
    orders.bounds.set()?;
    let child = match fork::child()? {
        Forked::New => return inner::run(orders, order),
        Forked::Made(child) => child,
    };
    let code = watch(child, &parent);
    process_tree::kill_below(getpid());
    let is_ready = fs::read(orders.dir.join(READY_FILE)).is_ok_and(|said| said == b"ok");
    if is_ready {
        let status = format!("{{\"exit-code\":{code}}}\n");
        fs::write(orders.dir.join(STATUS_FILE), status)?;
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(FAILED)))
}

/// Waits for the end of the program, or for that of whoever started us.
fn watch(child: Pid, parent: &OwnedFd) -> i32 {
    const KILLED: i32 = 137;
    let held = process_tree::handle(child);
    loop {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == child {
                let signalled = || status.terminating_signal().map(|signal| 128 + signal);
                return status.exit_status().or_else(signalled).unwrap_or(KILLED);
            }
        }
        let mut fds = vec![PollFd::new(parent, PollFlags::IN)];
        fds.extend(held.as_ref().map(|held| PollFd::new(held, PollFlags::IN)));
        if poll(&mut fds, Some(&FETCH_EVERY)).is_ok() && !fds[0].revents().is_empty() {
            return KILLED;
        }
    }
}

/// Makes name spaces: whoever is started next is the first process in its own.
pub(super) fn enter() -> io::Result<()> {
    let (user, group) = (geteuid().as_raw(), getegid().as_raw());
    let flags = CloneFlags::CLONE_NEWUSER
        | CloneFlags::CLONE_NEWPID
        | CloneFlags::CLONE_NEWIPC
        | CloneFlags::CLONE_NEWUTS
        | CloneFlags::CLONE_NEWNET;
    unshare(flags).map_err(io::Error::from)?;
    fs::write("/proc/self/setgroups", "deny")?;
    fs::write("/proc/self/uid_map", format!("{NOBODY} {user} 1"))?;
    fs::write("/proc/self/gid_map", format!("{NOBODY} {group} 1"))
}

/// Sets the machine-local interface of a new network up.
fn raise_loopback() -> io::Result<()> {
    const LENGTH: u32 = 32;
    const NEW_LINK: u16 = 16;
    const REQUEST_AND_ACKNOWLEDGE: u16 = 0x5;
    const INDEX_OF_LOOPBACK: u32 = 1;
    const UP: u32 = 1;
    let mut message = Vec::with_capacity(LENGTH as usize);
    message.extend(LENGTH.to_ne_bytes());
    message.extend(NEW_LINK.to_ne_bytes());
    message.extend(REQUEST_AND_ACKNOWLEDGE.to_ne_bytes());
    // A number for the answer, nobody's port, no family and no type of device.
    message.extend([1_u32, 0, 0].into_iter().flat_map(u32::to_ne_bytes));
    message.extend([INDEX_OF_LOOPBACK, UP, UP].into_iter().flat_map(u32::to_ne_bytes));
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // The first protocol: links, addresses and routes.
        None,
    )?;
    rustix::net::send(socket.as_fd(), &message, SendFlags::empty())?;
    let mut answer = [0_u8; 1024];
    let (size, _) = rustix::net::recv(socket.as_fd(), &mut answer, RecvFlags::empty())?;
    let code = answer[..size].get(16..20).and_then(|bytes| bytes.try_into().ok());
    match code.map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::Error::other("the kernel said nothing about the network")),
    }
}
