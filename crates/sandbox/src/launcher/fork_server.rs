//! The fork server: a process that creates launcher processes in advance.
//!
//! The owner requests a process; the fork server creates it and replies with its process id and a control socket. A job
//! therefore waits neither for the start of a large executable, nor for a copy of its owner's memory, nor for the
//! kernel to move a process into control groups, which takes milliseconds on a busy machine: the process already waits
//! in its control groups. Each new process is a child of the owner, not of the fork server. The fork server knows
//! nothing about jobs.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::process::ExitCode;

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use super::fork::{self, ForkResult};
use super::order::{LaunchKind, LaunchOrder};
use super::{bwrap, supervisor};

/// Maximum number of descriptors per message: a launch order and the standard files of a program.
pub(crate) const FILES_MAX: usize = 4;

/// Maximum size of a message, in bytes. Messages contain a few paths.
pub(crate) const MESSAGE_BYTES_MAX: usize = 4096;
/// Namespaces in which a process waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LinuxNamespaces {
    /// The namespaces of its owner.
    Shared,
    /// New namespaces. Creating them takes as long as the rest of the start.
    New,
}

impl LinuxNamespaces {
    /// Returns the first byte of a request message.
    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Shared => b'-',
            Self::New => b'n',
        }
    }
}

/// Message of a process that could not execute the program.
const EXEC_FAILED: &[u8] = b"no";
/// Byte before each path of a control group.
pub(crate) const SEPARATOR: u8 = 0;

/// Creates a process for each request until the owner closes the control socket, which is the standard input. Each
/// process waits for its order.
pub(super) fn run() -> io::Result<ExitCode> {
    fork::set_close_on_exec()?;
    let owner = getppid();
    die_with(owner)?;
    let control = io::stdin();
    let control = control.as_fd();
    loop {
        let Some((groups, _)) = receive(control)? else { return Ok(ExitCode::SUCCESS) };
        let (ours, theirs) = socket_pair()?;
        match fork::sibling()? {
            ForkResult::Child => {
                drop(ours);
                return wait_for_order(theirs, owner, &groups);
            }
            ForkResult::Parent(pid) => {
                let number = pid.as_raw_nonzero().get().to_ne_bytes();
                send(control, &number, &[ours.as_fd()])?;
            }
        }
    }
}

/// Waits for one launch order and executes it. Exits with code 0 if the control socket is closed.
fn wait_for_order(control: OwnedFd, owner: Option<Pid>, groups: &[u8]) -> io::Result<ExitCode> {
    die_with(owner)?;
    // An error can only be reported after the order has arrived.
    let joined = join_groups(groups, owner);
    LaunchOrder::warm_up()?;
    let Some(order) = receive_order(control.as_fd())? else { return Ok(ExitCode::SUCCESS) };
    drop(control);
    joined?;
    let order = LaunchOrder::read(order)?;
    match &order.kind {
        LaunchKind::Bwrap(launch) => bwrap::run(launch, &order),
        LaunchKind::Landlock(launch) => supervisor::run(launch, &order, owner),
        LaunchKind::Program => Err(io::Error::other("a program can start only inside a sandbox")),
    }
}

/// Waits for a launch order and replaces the standard files by those of the order. This drops the standard input, which
/// is the control socket of the fork server.
fn receive_order(control: BorrowedFd<'_>) -> io::Result<Option<File>> {
    let Some((_, files)) = receive(control)? else { return Ok(None) };
    let files: Result<[OwnedFd; FILES_MAX], _> = files.try_into();
    let [order, stdin, stdout, stderr] =
        files.map_err(|_files| io::Error::other("the message must contain four descriptors"))?;
    dup2_stdin(stdin)?;
    dup2_stdout(stdout)?;
    dup2_stderr(stderr)?;
    Ok(Some(order.into()))
}

/// Waits in a warm sandbox for a launch order and executes the program. The control socket is the standard input.
pub(super) fn wait_inside() -> io::Result<ExitCode> {
    let control = io::stdin().as_fd().try_clone_to_owned()?;
    LaunchOrder::warm_up()?;
    let Some(order) = receive_order(control.as_fd())? else { return Ok(ExitCode::SUCCESS) };
    let failed = LaunchOrder::read(order).and_then(|order| order.exec());
    // Only a launcher that failed to execute the program still has the control socket.
    send(control.as_fd(), EXEC_FAILED, &[])?;
    failed
}

/// Joins the control groups and, if requested, new namespaces.
fn join_groups(groups: &[u8], owner: Option<Pid>) -> io::Result<()> {
    let mut parts = groups.split(|byte| *byte == SEPARATOR);
    let namespaces = parts.next().unwrap_or_default();
    parts.map(OsStr::from_bytes).try_for_each(|procs_file| fs::write(procs_file, "0"))?;
    if namespaces == [LinuxNamespaces::New.code()] {
        supervisor::enter_namespaces()?;
        // The kernel clears the setting when the process changes its credentials.
        die_with(owner)?;
    }
    Ok(())
}

/// Makes the kernel kill this process when its owner ends. Fails if the owner has already ended.
fn die_with(owner: Option<Pid>) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    match owner.is_some() && getppid() == owner {
        true => Ok(()),
        false => Err(io::Error::other("the owner of this process has ended")),
    }
}

/// Returns a connected pair of sockets that preserve message boundaries.
pub(crate) fn socket_pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Ok(socketpair(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// Sends bytes and descriptors in one message.
pub(crate) fn send(
    control: BorrowedFd<'_>,
    bytes: &[u8],
    files: &[BorrowedFd<'_>],
) -> io::Result<()> {
    let mut buffer = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut buffer);
    if !files.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::other("too many descriptors for one message"));
    }
    sendmsg(control, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// Receives a message and its descriptors. `None` if the other end is closed.
pub(crate) fn receive(control: BorrowedFd<'_>) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; MESSAGE_BYTES_MAX];
    let mut buffer = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut buffer);
    let read = loop {
        let into = &mut [IoSliceMut::new(&mut bytes)];
        match recvmsg(control, into, &mut ancillary, RecvFlags::CMSG_CLOEXEC) {
            Err(rustix::io::Errno::INTR) => {}
            Err(rustix::io::Errno::CONNRESET) => return Ok(None),
            read => break read?,
        }
    };
    if read.bytes == 0 {
        return Ok(None);
    }
    bytes.truncate(read.bytes);
    let mut files = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            files.extend(some);
        }
    }
    Ok(Some((bytes, files)))
}
