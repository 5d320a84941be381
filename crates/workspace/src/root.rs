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
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
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
pub struct WorkspaceRoot(Arc<RootInner>);

/// Descriptor and lock that the clones of a workspace share.
#[derive(Debug)]
struct RootInner {
    root: OwnedFd,
    method: OpenMethod,
    access: Access,
    /// Held by callers from the read of a file to its replacement, so that no concurrent edit of this process is lost.
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
    /// Opens a directory as a workspace with the permitted operations. Fails if it does not exist.
    pub fn open(path: impl AsRef<Path>, access: Access) -> Result<Self> {
        let path = path.as_ref();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| Error::io(&path.display(), error))?;
        let method = OpenMethod::of(root.as_fd());
        Ok(Self(Arc::new(RootInner { root, method, access, changes: Mutex::default() })))
    }

    /// Opens a directory with the method for older kernels.
    #[cfg(feature = "test-support")]
    pub fn open_by_component(path: impl AsRef<Path>, access: Access) -> Result<Self> {
        let opened = Self::open(path, access)?;
        let root = opened.0.root.try_clone().map_err(|error| Error::io(&".", error))?;
        let inner =
            RootInner { root, method: OpenMethod::ByComponent, access, changes: Mutex::default() };
        Ok(Self(Arc::new(inner)))
    }

    /// Returns the permitted operations.
    pub fn access(&self) -> Access {
        self.0.access
    }

    /// Fails if the workspace does not permit reading.
    fn require_read(&self) -> Result<()> {
        match self.0.access {
            Access::None => Err(Error::Access("does not permit reading")),
            Access::ReadOnly | Access::ReadWrite => Ok(()),
        }
    }

    /// Fails if the workspace does not permit writing.
    fn require_write(&self) -> Result<()> {
        match self.0.access {
            Access::None => Err(Error::Access("does not permit writing")),
            Access::ReadOnly => Err(Error::Access("is read-only")),
            Access::ReadWrite => Ok(()),
        }
    }

    /// Returns the descriptor of the directory.
    fn root(&self) -> BorrowedFd<'_> {
        self.0.root.as_fd()
    }

    /// Waits for the lock on changes and returns it. Hold it from the read of a file to its replacement.
    /// [`WorkspaceRoot::replace`] does not take it. It excludes only callers that share this workspace.
    pub fn lock_changes(&self) -> MutexGuard<'_, ()> {
        self.0.changes.lock()
    }

    /// Opens a path beneath the directory. Fails with [`Error::Outside`] if the path leaves it.
    fn open_path(&self, path: &WorkspacePath, flags: OFlags) -> Result<OwnedFd> {
        self.0.method.open(self.root(), path, flags).map_err(|error| open_error(path, error))
    }

    /// Opens a regular file for reading. Fails if it has another type or the workspace does not permit reading.
    pub fn open_file(&self, path: &WorkspacePath) -> Result<OpenedFile> {
        self.require_read()?;
        // Opening a pipe or a device has side effects, so the file type is checked first.
        self.require_type(path, "a file", FileType::RegularFile)?;
        let opened = self.open_path(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        require_regular(opened, path)
    }

    /// Opens a directory. Fails if the path has another type or the workspace does not permit reading.
    pub fn open_directory(&self, path: &WorkspacePath) -> Result<OwnedFd> {
        self.require_read()?;
        self.require_type(path, "a directory", FileType::Directory)?;
        self.open_path(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Returns true for a directory, false for a regular file. Fails for any other file type.
    pub fn is_directory(&self, path: &WorkspacePath) -> Result<bool> {
        self.require_read()?;
        match FileType::from_raw_mode(self.stat(path)?.st_mode) {
            FileType::Directory => Ok(true),
            FileType::RegularFile => Ok(false),
            other => Err(wrong_type_error(path, other, "a file or a directory")),
        }
    }

    /// Returns the metadata of a path without opening it for reading.
    fn stat(&self, path: &WorkspacePath) -> Result<Stat> {
        let opened = self.open_path(path, PATH_ONLY)?;
        fstat(&opened).map_err(|error| Error::io(path, error))
    }

    /// Fails unless the path has the expected file type. `required` names that type in the error.
    fn require_type(
        &self,
        path: &WorkspacePath,
        required: &'static str,
        expected: FileType,
    ) -> Result<()> {
        match FileType::from_raw_mode(self.stat(path)?.st_mode) {
            kind if kind == expected => Ok(()),
            kind => Err(wrong_type_error(path, kind, required)),
        }
    }
}

/// Returns the opened file with its metadata. Fails if it is not a regular file.
fn require_regular(opened: OwnedFd, path: &WorkspacePath) -> Result<OpenedFile> {
    let stat = fstat(&opened).map_err(|error| Error::io(path, error))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(OpenedFile { file: File::from(opened), stat }),
        other => Err(wrong_type_error(path, other, "a file")),
    }
}

/// Creates the error of a path with the wrong file type. `required` names the permitted types.
fn wrong_type_error(path: &WorkspacePath, kind: FileType, required: &'static str) -> Error {
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

/// Converts an error of opening a path.
fn open_error(path: &WorkspacePath, error: Errno) -> Error {
    match error {
        Errno::XDEV => Error::Outside { path: path.to_string() },
        Errno::AGAIN => Error::Changed { path: path.to_string() },
        Errno::LOOP => wrong_type_error(path, FileType::Symlink, "a file or a directory"),
        other => Error::io(path, io::Error::from(other)),
    }
}

/// Fails if the call was cancelled.
pub fn check_cancelled(cancel: &CancellationToken) -> Result<()> {
    if cancel.is_cancelled() { Err(Error::Cancelled) } else { Ok(()) }
}
