//! Process creation of the launcher.
#![expect(unsafe_code, reason = "the library has no safe call that makes a process")]

use std::io;

use rustix::process::Pid;

/// Result of a fork.
#[derive(Debug)]
pub(super) enum ForkResult {
    /// The calling code runs in the new process.
    Child,
    /// The calling code runs in the original process. Contains the process id of the new one.
    Parent(Pid),
}

/// Creates a process with the same parent as the caller. That parent waits for the new process.
pub(super) fn sibling() -> io::Result<ForkResult> {
    fork(libc::CLONE_PARENT)
}

/// Creates a child process.
pub(super) fn child() -> io::Result<ForkResult> {
    fork(0)
}

/// Creates a process with additional flags of `clone`.
fn fork(flags: libc::c_int) -> io::Result<ForkResult> {
    let flags = libc::c_long::from(flags | libc::SIGCHLD);
    let none: libc::c_long = 0;
    // SAFETY: without a stack and without `CLONE_VM`, this call is equivalent to `fork`. A launcher has one thread, so
    // no other thread can hold a lock or be inside a critical section when the memory is copied.
    let result = unsafe { libc::syscall(libc::SYS_clone, flags, none, none, none, none) };
    match i32::try_from(result).map(Pid::from_raw) {
        _ if result < 0 => Err(io::Error::last_os_error()),
        Ok(Some(pid)) => Ok(ForkResult::Parent(pid)),
        _ => Ok(ForkResult::Child),
    }
}

/// Sets close-on-exec for all descriptors except the three standard ones.
pub(super) fn set_close_on_exec() -> io::Result<()> {
    const FIRST: libc::c_uint = 3;
    // SAFETY: `close_range` with `CLOSE_RANGE_CLOEXEC` neither closes nor opens a descriptor.
    let result = unsafe {
        libc::syscall(
            libc::SYS_close_range,
            FIRST,
            libc::c_uint::MAX,
            libc::CLOSE_RANGE_CLOEXEC.cast_signed(),
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}
