//! A directory for tools that no path can leave.

mod directory;
mod edit_markers;
mod open;
mod path;
mod replace;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{FileType, Mode, OFlags, Stat, fstat};
use rustix::io::Errno;
use tokio_util::sync::CancellationToken;

pub use self::directory::{DirectoryEntries, DirectoryEntry};
pub use self::edit_markers::EditMarkers;
pub use self::open::open_in;
pub use self::path::{WorkspacePath, excerpt};
pub use self::replace::Replacement;

use self::open::{OpenMethod, PATH_ONLY};
use crate::error::{Error, Result};

/// Permitted operations in a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// None. The workspace has no tools.
    #[default]
    None,
    /// Reading.
    ReadOnly,
    /// Reading and writing.
    ReadWrite,
}

/// A directory for tools. Clones share its descriptor.
///
/// The descriptor stays open: a directory that is renamed later remains the workspace, and a new directory with its
/// name does not become the workspace.
#[derive(Debug, Clone)]
pub struct WorkspaceRoot(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: OwnedFd,
    method: OpenMethod,
    access: Access,
    /// Held during the replacement of a file, so that no concurrent edit is lost.
    changes: Mutex<()>,
}

/// An opened regular file and its metadata.
#[derive(Debug)]
pub struct OpenedFile {
    /// The file.
    pub file: File,
    /// Metadata at the time of opening.
    pub stat: Stat,
}

impl WorkspaceRoot {
    /// Opens a directory as a workspace.
    pub fn open(path: impl AsRef<Path>, access: Access) -> Result<Self> {
        let path = path.as_ref();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| Error::io(&path.display(), error))?;
        let method = OpenMethod::of(root.as_fd());
        Ok(Self(Arc::new(Inner { root, method, access, changes: Mutex::default() })))
    }

    /// Opens a directory with the method for older kernels.
    #[cfg(feature = "test-support")]
    pub fn open_by_component(path: impl AsRef<Path>, access: Access) -> Result<Self> {
        let opened = Self::open(path, access)?;
        let root = opened.0.root.try_clone().map_err(|error| Error::io(&".", error))?;
        let inner =
            Inner { root, method: OpenMethod::ByComponent, access, changes: Mutex::default() };
        Ok(Self(Arc::new(inner)))
    }

    /// Returns the permitted operations.
    pub fn access(&self) -> Access {
        self.0.access
    }

    fn may_read(&self) -> Result<()> {
        match self.0.access {
            Access::None => Err(Error::Access("does not permit reading")),
            Access::ReadOnly | Access::ReadWrite => Ok(()),
        }
    }

    fn may_write(&self) -> Result<()> {
        match self.0.access {
            Access::None => Err(Error::Access("does not permit writing")),
            Access::ReadOnly => Err(Error::Access("is read-only")),
            Access::ReadWrite => Ok(()),
        }
    }

    fn root(&self) -> BorrowedFd<'_> {
        self.0.root.as_fd()
    }

    /// Locks out other changes until the guard is dropped.
    pub fn lock_changes(&self) -> MutexGuard<'_, ()> {
        self.0.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resolve(&self, path: &WorkspacePath, flags: OFlags) -> Result<OwnedFd> {
        self.0.method.open(self.root(), path, flags).map_err(|error| open_error(path, error))
    }

    /// Opens a regular file for reading.
    pub fn open_file(&self, path: &WorkspacePath) -> Result<OpenedFile> {
        self.may_read()?;
        // Opening a pipe or a device has side effects, so the file type is checked first.
        self.kind(path, "a file", FileType::RegularFile)?;
        let opened = self.resolve(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        require_regular(opened, path)
    }

    /// Opens a directory.
    pub fn open_directory(&self, path: &WorkspacePath) -> Result<OwnedFd> {
        self.may_read()?;
        self.kind(path, "a directory", FileType::Directory)?;
        self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// True for a directory, false for a regular file. Fails for any other file type.
    pub fn is_directory(&self, path: &WorkspacePath) -> Result<bool> {
        self.may_read()?;
        match FileType::from_raw_mode(self.stat(path)?.st_mode) {
            FileType::Directory => Ok(true),
            FileType::RegularFile => Ok(false),
            other => Err(other_kind(path, other, "a file or a directory")),
        }
    }

    fn stat(&self, path: &WorkspacePath) -> Result<Stat> {
        let opened = self.resolve(path, PATH_ONLY)?;
        fstat(&opened).map_err(|error| Error::io(path, error))
    }

    fn kind(&self, path: &WorkspacePath, required: &'static str, expected: FileType) -> Result<()> {
        match FileType::from_raw_mode(self.stat(path)?.st_mode) {
            kind if kind == expected => Ok(()),
            kind => Err(other_kind(path, kind, required)),
        }
    }
}

/// Accepts the descriptor of a regular file only.
fn require_regular(opened: OwnedFd, path: &WorkspacePath) -> Result<OpenedFile> {
    let stat = fstat(&opened).map_err(|error| Error::io(path, error))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(OpenedFile { file: File::from(opened), stat }),
        other => Err(other_kind(path, other, "a file")),
    }
}

fn other_kind(path: &WorkspacePath, kind: FileType, required: &'static str) -> Error {
    Error::Kind { path: path.to_string(), actual: kind_name(kind), required }
}

/// Returns the name of a file type with its article.
pub fn kind_name(kind: FileType) -> &'static str {
    match kind {
        FileType::RegularFile => "a file",
        FileType::Directory => "a directory",
        FileType::Symlink => "a link that is not followed",
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        FileType::Unknown => "of an unknown kind",
    }
}

fn open_error(path: &WorkspacePath, error: Errno) -> Error {
    match error {
        Errno::XDEV => Error::Outside { path: path.to_string() },
        Errno::AGAIN => Error::Changed { path: path.to_string() },
        Errno::LOOP => other_kind(path, FileType::Symlink, "a file or a directory"),
        other => Error::io(path, io::Error::from(other)),
    }
}

/// Fails if the call was cancelled.
pub fn check_cancelled(cancel: &CancellationToken) -> Result<()> {
    if cancel.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
}
