//! How the runtime is told to look at a handle on a process.
#![expect(
    unsafe_code,
    reason = "the library cannot know of every type that its descriptor stays the same"
)]

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Has the runtime look at a handle. It can be read when the process has ended.
pub(super) fn watch(handle: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: whoever owns a descriptor names the same one until it is dropped, and nobody else closes it.
    let watched = unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) };
    Ok(watched?)
}
