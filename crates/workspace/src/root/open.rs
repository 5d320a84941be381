//! Opening what a path names without ever leaving the root, whatever others do to directories meanwhile.
//!
//! Invariant: every descriptor made here comes from the root's descriptor, by a kernel that refuses to leave it
//! (`openat2` with `RESOLVE_BENEATH`), or name by name without following any link. No path is checked first and used later.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::path::InnerPath;

/// Tries when the kernel cannot say whether a link stays inside because something is being renamed at that moment.
const TRIES_MAX: usize = 64;

/// How to look at what is there without opening it.
#[cfg(target_os = "linux")]
pub(super) const LOOK: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
pub(super) const LOOK: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

/// How to open a directory in order to go on from there.
const STEP: OFlags = LOOK.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// How names become descriptors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// The kernel resolves the whole path beneath the root; links that stay inside are followed.
    #[cfg(target_os = "linux")]
    Beneath,
    /// Name by name; no link is followed.
    Steps,
}

impl Way {
    /// The best that the kernel has. It is asked, as a sandbox may forbid what a kernel knows.
    pub(super) fn of(root: BorrowedFd<'_>) -> Self {
        #[cfg(target_os = "linux")]
        if Self::Beneath.open(root, &InnerPath::root(), LOOK).is_ok() {
            return Self::Beneath;
        }
        Self::Steps
    }

    /// Opens what a path names beneath the root.
    pub(super) fn open(
        self,
        root: BorrowedFd<'_>,
        path: &InnerPath,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        match self {
            #[cfg(target_os = "linux")]
            Self::Beneath => beneath(root, path, flags),
            Self::Steps => steps(root, path, flags),
        }
    }
}

#[cfg(target_os = "linux")]
fn beneath(root: BorrowedFd<'_>, path: &InnerPath, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::{ResolveFlags, openat2};

    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut tries = 0;
    loop {
        match openat2(root, path.as_str(), flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) if tries < TRIES_MAX => tries += 1,
            other => return other,
        }
    }
}

fn steps(root: BorrowedFd<'_>, path: &InnerPath, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW;
    let Some((above, name)) = path.split() else {
        return again(|| openat(root, ".", flags, Mode::empty()));
    };
    let mut held: Option<OwnedFd> = None;
    for step in above.names() {
        let at = held.as_ref().map_or(root, AsFd::as_fd);
        held = Some(again(|| openat(at, step, STEP, Mode::empty()))?);
    }
    let at = held.as_ref().map_or(root, AsFd::as_fd);
    again(|| openat(at, name, flags, Mode::empty()))
}

/// Opens one name in a directory, and never what a link points to.
pub fn open_in(directory: BorrowedFd<'_>, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    again(|| openat(directory, name, flags, Mode::empty()))
}

/// A call that a signal may cut short.
fn again<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut tries = 0;
    loop {
        match call() {
            Err(Errno::INTR) if tries < TRIES_MAX => tries += 1,
            other => return other,
        }
    }
}
