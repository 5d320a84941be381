//! Registration of a process handle with the runtime.
#![expect(
    unsafe_code,
    reason = "the library requires a promise that the descriptor stays the same"
)]

use std::io;
use std::os::fd::OwnedFd;

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Registers a handle with the runtime. The handle becomes readable when the process ends.
pub(super) fn watch(handle: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    // SAFETY: an `OwnedFd` returns the same descriptor until it is dropped, and no other code closes it. `AsyncFd` owns
    // the handle, so the descriptor stays valid for as long as it is registered.
    let watched = unsafe { AsyncFd::register_with_interest(handle, Interest::READABLE) };
    Ok(watched?)
}
