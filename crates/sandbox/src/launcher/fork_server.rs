//! The process that has others ready.
//!
//! It is asked for one, makes it, and hands over its number and a line to it. So a job waits neither for a program of our size
//! to be started nor for a copy of whatever else its owner has in memory, nor for the kernel to let somebody into control
//! groups, which takes milliseconds where all processors are busy: somebody in there waits for its order already. Whoever is
//! made is a child of the owner, not of this process, which knows nothing of jobs and has nothing to wait for.

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

use super::fork::{self, Forked};
use super::order::{Order, Work};
use super::{bwrap, outer};

/// Files that are handed over with one message: an order and the standard files of a program.
pub(crate) const FILES_MAX: usize = 4;

/// Bytes of one message: a few paths.
pub(crate) const MESSAGE_BYTES_MAX: usize = 4096;
/// Where a process waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spaces {
    /// Where its owner is.
    Shared,
    /// In name spaces that are made for it, which takes as long as the rest of a start.
    Own,
}

impl Spaces {
    /// What stands first in a message that asks for a process.
    pub(crate) fn letter(self) -> u8 {
        match self {
            Self::Shared => b'-',
            Self::Own => b'n',
        }
    }
}

/// What is said by whoever could not become the program.
const REFUSED: &[u8] = b"no";
/// What stands before each path of a control group.
pub(crate) const BETWEEN: u8 = 0;

/// Makes processes until nobody can ask for one any more. The line to whoever asks is the standard input.
pub(super) fn run() -> io::Result<ExitCode> {
    fork::keep_files_to_ourselves()?;
    let owner = getppid();
    die_with(owner)?;
    let line = io::stdin();
    let line = line.as_fd();
    loop {
        let Some((place, _)) = receive(line)? else { return Ok(ExitCode::SUCCESS) };
        let (ours, theirs) = pair()?;
        match fork::sibling()? {
            Forked::New => {
                drop(ours);
                return wait_for_order(theirs, owner, &place);
            }
            Forked::Made(pid) => {
                let number = pid.as_raw_nonzero().get().to_ne_bytes();
                send(line, &number, &[ours.as_fd()])?;
            }
        }
    }
}

/// Does what it is told, once. Whoever is told nothing ends.
fn wait_for_order(line: OwnedFd, owner: Option<Pid>, place: &[u8]) -> io::Result<ExitCode> {
    die_with(owner)?;
    // Nobody can be told yet that it is not let in.
    let is_in = enter(place, owner);
    Order::rehearse()?;
    let Some(order) = ordered(line.as_fd())? else { return Ok(ExitCode::SUCCESS) };
    drop(line);
    is_in?;
    let order = Order::read(order)?;
    match &order.work {
        Work::Wrap(wrap) => bwrap::run(wrap, &order),
        Work::Landlock(orders) => outer::run(orders, &order, owner),
        Work::Program => Err(io::Error::other("a program is started in a sandbox only")),
    }
}

/// Waits for an order and takes the standard files that come with it: its own standard input, the line of whoever made it, is
/// no more after this.
fn ordered(line: BorrowedFd<'_>) -> io::Result<Option<File>> {
    let Some((_, files)) = receive(line)? else { return Ok(None) };
    let files: Result<[OwnedFd; FILES_MAX], _> = files.try_into();
    let [order, stdin, stdout, stderr] =
        files.map_err(|_files| io::Error::other("the files of a program are missing"))?;
    dup2_stdin(stdin)?;
    dup2_stdout(stdout)?;
    dup2_stderr(stderr)?;
    Ok(Some(order.into()))
}

/// Waits in a sandbox that is set up, and becomes the program. The line to whoever orders is the standard input.
pub(super) fn wait_inside() -> io::Result<ExitCode> {
    let line = io::stdin().as_fd().try_clone_to_owned()?;
    Order::rehearse()?;
    let Some(order) = ordered(line.as_fd())? else { return Ok(ExitCode::SUCCESS) };
    let failed = Order::read(order).and_then(|order| order.exec());
    // What ends now is not the program, which has the line no more.
    send(line.as_fd(), REFUSED, &[])?;
    failed
}

/// Enters control groups, and name spaces if they are asked for.
fn enter(place: &[u8], owner: Option<Pid>) -> io::Result<()> {
    let mut words = place.split(|byte| *byte == BETWEEN);
    let spaces = words.next().unwrap_or_default();
    words.map(OsStr::from_bytes).try_for_each(|door| fs::write(door, "0"))?;
    if spaces == [Spaces::Own.letter()] {
        outer::enter()?;
        // The kernel forgets it with the rights that were given up.
        die_with(owner)?;
    }
    Ok(())
}

/// Ends with its owner, also if that one has just ended.
fn die_with(owner: Option<Pid>) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    match owner.is_some() && getppid() == owner {
        true => Ok(()),
        false => Err(io::Error::other("whoever started this has ended")),
    }
}

/// A line between two processes. A message comes as a whole.
pub(crate) fn pair() -> io::Result<(OwnedFd, OwnedFd)> {
    let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
    Ok(socketpair(family, kind, SocketFlags::CLOEXEC, None)?)
}

/// Sends a few bytes and files.
pub(crate) fn send(line: BorrowedFd<'_>, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::Error::other("too many files for one message"));
    }
    sendmsg(line, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL)?;
    Ok(())
}

/// A message, and the files with it; nothing if there will never be one.
pub(crate) fn receive(line: BorrowedFd<'_>) -> io::Result<Option<(Vec<u8>, Vec<OwnedFd>)>> {
    let mut bytes = vec![0; MESSAGE_BYTES_MAX];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(FILES_MAX))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let read = loop {
        let into = &mut [IoSliceMut::new(&mut bytes)];
        match recvmsg(line, into, &mut control, RecvFlags::CMSG_CLOEXEC) {
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
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(some) = message {
            files.extend(some);
        }
    }
    Ok(Some((bytes, files)))
}
