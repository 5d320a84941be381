//! The supervisor process outside of the sandbox: it sets the limits, waits for the program and ends all its processes.

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

use super::fork::{self, ForkResult};
use super::order::{LandlockLaunch, LaunchOrder};
use super::{FAILED, READY_FILE, confine};
use crate::linux::process_tree;
use crate::teardown::STATUS_FILE;

/// User and group id of the program in a user namespace.
const NOBODY: u32 = 65_534;
/// Interval of the search for orphaned processes.
const REAP_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Runs the program in a child process and waits for its end or that of the owner. Then kills all descendants and
/// writes the exit code to the status file, if the program was started.
pub(super) fn run(
    launch: &LandlockLaunch,
    order: &LaunchOrder,
    owner: Option<Pid>,
) -> io::Result<ExitCode> {
    let owner_ended = || io::Error::other("the owner of this process has ended");
    let parent = owner.and_then(process_tree::open_pidfd).ok_or_else(owner_ended)?;
    // From here on, the end of the owner must not kill the supervisor: it detects that end itself and kills the
    // descendants first.
    set_parent_process_death_signal(None)?;
    if getppid() != owner {
        return Err(owner_ended());
    }
    if !launch.has_namespaces {
        set_child_subreaper(Some(getpid()))?;
    } else if launch.proxy_socket.is_some() {
        raise_loopback()?;
    }
    launch.rlimits.set()?;
    let child = match fork::child()? {
        ForkResult::Child => return confine::run(launch, order),
        ForkResult::Parent(child) => child,
    };
    let code = wait_for_exit(child, &parent);
    process_tree::kill_descendants(getpid());
    let is_ready = fs::read(launch.dir.join(READY_FILE)).is_ok_and(|text| text == b"ok");
    if is_ready {
        let status = format!("{{\"exit-code\":{code}}}\n");
        fs::write(launch.dir.join(STATUS_FILE), status)?;
    }
    Ok(ExitCode::from(u8::try_from(code).unwrap_or(FAILED)))
}

/// Waits for the end of the program or of the owner. Returns the exit code.
fn wait_for_exit(child: Pid, parent: &OwnedFd) -> i32 {
    const KILLED: i32 = 137;
    let pidfd = process_tree::open_pidfd(child);
    loop {
        while let Ok(Some((pid, status))) = wait(WaitOptions::NOHANG) {
            if pid == child {
                let signalled = || status.terminating_signal().map(|signal| 128 + signal);
                return status.exit_status().or_else(signalled).unwrap_or(KILLED);
            }
        }
        let mut fds = vec![PollFd::new(parent, PollFlags::IN)];
        fds.extend(pidfd.as_ref().map(|pidfd| PollFd::new(pidfd, PollFlags::IN)));
        if poll(&mut fds, Some(&REAP_INTERVAL)).is_ok() && !fds[0].revents().is_empty() {
            return KILLED;
        }
    }
}

/// Creates namespaces. The next child becomes the first process of the process namespace.
pub(super) fn enter_namespaces() -> io::Result<()> {
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

/// Enables the loopback interface of a new network namespace.
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
    // Sequence number, kernel as the destination, no family and no device type.
    message.extend([1_u32, 0, 0].into_iter().flat_map(u32::to_ne_bytes));
    message.extend([INDEX_OF_LOOPBACK, UP, UP].into_iter().flat_map(u32::to_ne_bytes));
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // Protocol 0 is NETLINK_ROUTE: links, addresses and routes.
        None,
    )?;
    rustix::net::send(socket.as_fd(), &message, SendFlags::empty())?;
    let mut reply = [0_u8; 1024];
    let (size, _) = rustix::net::recv(socket.as_fd(), &mut reply, RecvFlags::empty())?;
    let code = reply[..size].get(16..20).and_then(|bytes| bytes.try_into().ok());
    match code.map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(code) => Err(io::Error::from_raw_os_error(-code)),
        None => Err(io::Error::other("the kernel sent no reply to the network request")),
    }
}
