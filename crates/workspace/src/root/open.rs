//! Opening a path without leaving the root, even if directories are replaced concurrently.
//!
//! Invariant: every descriptor is opened relative to the descriptor of the root, either by a kernel that enforces
//! containment (`openat2` with `RESOLVE_BENEATH`), or component by component without following links. No path is
//! checked first and used later.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::path::WorkspacePath;

/// Maximum number of attempts while a concurrent rename prevents the kernel from deciding whether a link stays inside.
const ATTEMPTS_MAX: usize = 64;

/// Flags for examining a path without opening the file.
#[cfg(target_os = "linux")]
pub(super) const PATH_ONLY: OFlags = OFlags::PATH;
#[cfg(not(target_os = "linux"))]
pub(super) const PATH_ONLY: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK);

/// Flags for opening a directory as a step of a path.
const STEP_FLAGS: OFlags =
    PATH_ONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Method of resolving a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpenMethod {
    /// The kernel resolves the complete path beneath the root. Links that stay inside are followed.
    #[cfg(target_os = "linux")]
    Beneath,
    /// Component by component. No link is followed.
    ByComponent,
}

impl OpenMethod {
    /// Returns the best method of this system: `openat2`, or [`OpenMethod::ByComponent`] if opening `root` with it
    /// fails, because a sandbox may block the system call.
    pub(super) fn of(root: BorrowedFd<'_>) -> Self {
        #[cfg(target_os = "linux")]
        if Self::Beneath.open(root, &WorkspacePath::root(), PATH_ONLY).is_ok() {
            return Self::Beneath;
        }
        Self::ByComponent
    }

    /// Opens a path beneath the root.
    pub(super) fn open(
        self,
        root: BorrowedFd<'_>,
        path: &WorkspacePath,
        flags: OFlags,
    ) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC;
        match self {
            #[cfg(target_os = "linux")]
            Self::Beneath => beneath(root, path, flags),
            Self::ByComponent => open_by_component(root, path, flags),
        }
    }
}

/// Opens a path with `openat2`, which the kernel confines to the root. Links inside of the root are followed.
#[cfg(target_os = "linux")]
fn beneath(root: BorrowedFd<'_>, path: &WorkspacePath, flags: OFlags) -> Result<OwnedFd, Errno> {
    use rustix::fs::{ResolveFlags, openat2};

    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut attempts = 0;
    loop {
        match openat2(root, path.as_str(), flags, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) if attempts < ATTEMPTS_MAX => attempts += 1,
            other => return other,
        }
    }
}

/// Opens a path one directory at a time. Fails with [`Errno::LOOP`] or [`Errno::NOTDIR`] for any link.
fn open_by_component(
    root: BorrowedFd<'_>,
    path: &WorkspacePath,
    flags: OFlags,
) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW;
    let Some((parent, name)) = path.split() else {
        return retry_interrupted(|| openat(root, ".", flags, Mode::empty()));
    };
    let mut current: Option<OwnedFd> = None;
    for step in parent.names() {
        let at = current.as_ref().map_or(root, AsFd::as_fd);
        current = Some(retry_interrupted(|| openat(at, step, STEP_FLAGS, Mode::empty()))?);
    }
    let at = current.as_ref().map_or(root, AsFd::as_fd);
    retry_interrupted(|| openat(at, name, flags, Mode::empty()))
}

/// Opens one name in a directory. Does not follow a link.
pub fn open_in(directory: BorrowedFd<'_>, name: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    retry_interrupted(|| openat(directory, name, flags, Mode::empty()))
}

/// Repeats a system call that a signal interrupted.
fn retry_interrupted<T>(mut call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    let mut attempts = 0;
    loop {
        match call() {
            Err(Errno::INTR) if attempts < ATTEMPTS_MAX => attempts += 1,
            other => return other,
        }
    }
}
