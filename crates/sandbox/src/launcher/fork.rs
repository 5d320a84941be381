//! How a launcher makes new processes of itself.
#![expect(unsafe_code, reason = "the library has no safe call that makes a process")]

use std::io;

use rustix::process::Pid;

/// Who somebody is after there are two.
#[derive(Debug)]
pub(super) enum Forked {
    /// The new one.
    New,
    /// The one that was there, with the number of the new one.
    Made(Pid),
}

/// Makes a process whose parent is our own: that one waits for it, and its end is the end of the new one.
pub(super) fn sibling() -> io::Result<Forked> {
    fork(libc::CLONE_PARENT)
}

/// Makes a process below this one.
pub(super) fn child() -> io::Result<Forked> {
    fork(0)
}

fn fork(flags: libc::c_int) -> io::Result<Forked> {
    let flags = libc::c_long::from(flags | libc::SIGCHLD);
    let nothing: libc::c_long = 0;
    // SAFETY: without a stack and without shared memory this is `fork`. A launcher has one thread, so no lock is held and nothing
    // is half done in the memory that the new process gets a copy of.
    let number =
        unsafe { libc::syscall(libc::SYS_clone, flags, nothing, nothing, nothing, nothing) };
    match i32::try_from(number).map(Pid::from_raw) {
        _ if number < 0 => Err(io::Error::last_os_error()),
        Ok(Some(pid)) => Ok(Forked::Made(pid)),
        _ => Ok(Forked::New),
    }
}

/// Nothing that this process has open, but its three standard ones, is there after an `exec`.
pub(super) fn keep_files_to_ourselves() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: no file is closed or opened by it.
    let done = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            FIRST,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC.cast_signed(),
        )
    };
    if done == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
