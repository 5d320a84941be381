//! A directory that tools may look into and change, and which no path leaves.

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

pub use self::directory::{Entries, Entry};
pub use self::edit_markers::Marks;
pub use self::open::open_in;
pub use self::path::{InnerPath, shortened};
pub use self::replace::Replacement;

use self::open::{LOOK, Way};
use crate::error::{Error, Result};

/// What may be done in a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Access {
    /// Nothing: there are no tools for it.
    #[default]
    None,
    /// Looking.
    ReadOnly,
    /// Looking and changing.
    ReadWrite,
}

/// A directory that tools may use. Cheap to clone.
///
/// It is held open by its descriptor: a directory that is renamed later stays the workspace, and what takes its name does not
/// become it.
#[derive(Debug, Clone)]
pub struct Workspace(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: OwnedFd,
    way: Way,
    access: Access,
    /// Held while a file is replaced: of two edits at the same time none is lost.
    changing: Mutex<()>,
}

/// A regular file that was opened, and what was known of it then.
#[derive(Debug)]
pub struct Opened {
    /// The file.
    pub file: File,
    /// What is known of it.
    pub stat: Stat,
}

impl Workspace {
    /// Opens a directory as a workspace.
    pub fn open(path: impl AsRef<Path>, access: Access) -> Result<Self> {
        let path = path.as_ref();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|error| Error::io(&path.display(), error))?;
        let way = Way::of(root.as_fd());
        Ok(Self(Arc::new(Inner { root, way, access, changing: Mutex::default() })))
    }

    /// The same with the way that an older kernel has.
    #[cfg(feature = "test-support")]
    pub fn open_by_steps(path: impl AsRef<Path>, access: Access) -> Result<Self> {
        let opened = Self::open(path, access)?;
        let root = opened.0.root.try_clone().map_err(|error| Error::io(&".", error))?;
        let inner = Inner { root, way: Way::Steps, access, changing: Mutex::default() };
        Ok(Self(Arc::new(inner)))
    }

    /// What may be done in it.
    pub fn access(&self) -> Access {
        self.0.access
    }

    fn may_read(&self) -> Result<()> {
        match self.0.access {
            Access::None => Err(Error::Access("may not be read")),
            Access::ReadOnly | Access::ReadWrite => Ok(()),
        }
    }

    fn may_write(&self) -> Result<()> {
        match self.0.access {
            Access::None => Err(Error::Access("may not be written")),
            Access::ReadOnly => Err(Error::Access("is read-only")),
            Access::ReadWrite => Ok(()),
        }
    }

    fn root(&self) -> BorrowedFd<'_> {
        self.0.root.as_fd()
    }

    /// Holds off other changes.
    pub fn changing(&self) -> MutexGuard<'_, ()> {
        self.0.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn resolve(&self, path: &InnerPath, flags: OFlags) -> Result<OwnedFd> {
        self.0.way.open(self.root(), path, flags).map_err(|error| refusal(path, error))
    }

    /// Opens a regular file for reading.
    pub fn open_file(&self, path: &InnerPath) -> Result<Opened> {
        self.may_read()?;
        // Opening a pipe or a device does something to it, so it is looked at first.
        self.kind(path, "a file", FileType::RegularFile)?;
        let opened = self.resolve(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY)?;
        regular(opened, path)
    }

    /// Opens a directory.
    pub fn open_directory(&self, path: &InnerPath) -> Result<OwnedFd> {
        self.may_read()?;
        self.kind(path, "a directory", FileType::Directory)?;
        self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)
    }

    /// Is it a directory? What is neither that nor a file is refused.
    pub fn is_directory(&self, path: &InnerPath) -> Result<bool> {
        self.may_read()?;
        match FileType::from_raw_mode(self.look(path)?.st_mode) {
            FileType::Directory => Ok(true),
            FileType::RegularFile => Ok(false),
            other => Err(other_kind(path, other, "a file or a directory")),
        }
    }

    fn look(&self, path: &InnerPath) -> Result<Stat> {
        let looked = self.resolve(path, LOOK)?;
        fstat(&looked).map_err(|error| Error::io(path, error))
    }

    fn kind(&self, path: &InnerPath, needed: &'static str, wanted: FileType) -> Result<()> {
        match FileType::from_raw_mode(self.look(path)?.st_mode) {
            kind if kind == wanted => Ok(()),
            kind => Err(other_kind(path, kind, needed)),
        }
    }
}

/// Takes a descriptor for a file only if it is a regular one.
fn regular(opened: OwnedFd, path: &InnerPath) -> Result<Opened> {
    let stat = fstat(&opened).map_err(|error| Error::io(path, error))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(Opened { file: File::from(opened), stat }),
        other => Err(other_kind(path, other, "a file")),
    }
}

fn other_kind(path: &InnerPath, kind: FileType, needed: &'static str) -> Error {
    Error::Kind { path: path.to_string(), is: kind_name(kind), needed }
}

/// What a kind of file is called.
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

fn refusal(path: &InnerPath, error: Errno) -> Error {
    match error {
        Errno::XDEV => Error::Outside { path: path.to_string() },
        Errno::AGAIN => Error::Changed { path: path.to_string() },
        Errno::LOOP => other_kind(path, FileType::Symlink, "a file or a directory"),
        other => Error::io(path, io::Error::from(other)),
    }
}

/// Fails if the caller of some work has gone.
pub fn check_stopped(stop: &CancellationToken) -> Result<()> {
    if stop.is_cancelled() { Err(Error::Stopped) } else { Ok(()) }
}
