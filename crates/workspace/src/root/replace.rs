//! Atomic replacement of a file.
//!
//! Invariant: the content is written to a temporary file in the same directory, made durable, and renamed. A crash
//! leaves the old content or the new one. A symbolic link is refused. If a file has several hard links, only this name
//! gets the new content.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use provost_core::Env;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fchmod, fsync, mkdirat, openat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;

use super::edit_markers::EditMarkers;
use super::open::open_in;
use super::path::WorkspacePath;
use super::{WorkspaceRoot, check_cancelled, open_error, wrong_type_error};
use crate::error::{Error, Result};
use tokio_util::sync::CancellationToken;

/// Prefix of temporary file names.
const TEMP_PREFIX: &str = ".provost-";
/// Suffix of temporary file names.
const TEMP_SUFFIX: &str = ".unfinished";
/// Permissions of a new file, before the umask.
const FILE_MODE: u32 = 0o644;
/// Permissions of a new directory, before the umask.
const DIRECTORY_MODE: u32 = 0o755;
/// Permissions that a new file inherits from the replaced one.
const MODE_MASK: u32 = 0o777;
/// Number of bytes between two checks for cancellation.
const CHUNK_BYTES: usize = 256 * 1024;

/// New content of a file.
#[derive(Debug)]
pub struct Replacement<'a> {
    /// The content.
    pub content: &'a [u8],
    /// Metadata of the file when it was read. The replacement fails if the file has changed since. `None`: replaces any
    /// version.
    pub expected: Option<&'a Stat>,
    /// Markers of the edits. `None`: keeps the markers of the old file.
    pub markers: Option<EditMarkers>,
}

/// Returns true for the name of a temporary file.
pub(super) fn is_temp_file(name: &[u8]) -> bool {
    name.starts_with(TEMP_PREFIX.as_bytes()) && name.ends_with(TEMP_SUFFIX.as_bytes())
}

impl WorkspaceRoot {
    /// Replaces a file and keeps its permissions. If [`Replacement::expected`] is `None`, creates a missing file with
    /// its parent directories. Fails with [`Error::Changed`] if the file is not the expected version. Does not lock:
    /// the caller holds [`WorkspaceRoot::lock_changes`].
    pub fn replace(
        &self,
        path: &WorkspacePath,
        replacement: Replacement<'_>,
        cancel: &CancellationToken,
    ) -> Result<()> {
        self.require_write()?;
        let Some((parent, name)) = path.split() else {
            return Err(wrong_type_error(path, FileType::Directory, "a file"));
        };
        if is_temp_file(name.as_bytes()) {
            return Err(Error::Argument(format!("`{path}` is a reserved name")));
        }
        let directory = match replacement.expected {
            Some(_) => self.open_path(&parent, OFlags::RDONLY | OFlags::DIRECTORY)?,
            None => self.make_directory(&parent)?,
        };
        let failed = |error: Errno| Error::io(path, error);
        let old = self.check_old(&directory, path, name, replacement.expected)?;
        let new = TempFile::create(&directory).map_err(failed)?;
        let mut file = File::from(new.file.try_clone().map_err(|error| Error::io(path, error))?);
        for chunk in replacement.content.chunks(CHUNK_BYTES) {
            check_cancelled(cancel)?;
            file.write_all(chunk).map_err(|error| Error::io(path, error))?;
        }
        file.flush().map_err(|error| Error::io(path, error))?;
        if let Some(old) = &old {
            fchmod(&new.file, Mode::from_raw_mode(old.st_mode & MODE_MASK)).map_err(failed)?;
        }
        let markers = match (replacement.markers, &old) {
            (Some(markers), _) => markers,
            (None, Some(_)) => open_in(directory.as_fd(), name, OFlags::RDONLY | OFlags::NONBLOCK)
                .ok()
                .and_then(EditMarkers::read)
                .unwrap_or_default(),
            (None, None) => EditMarkers::default(),
        };
        markers.write(&new.file);
        fsync(&new.file).map_err(failed)?;
        check_cancelled(cancel)?;
        // Repeats the check as late as possible.
        self.check_old(&directory, path, name, replacement.expected)?;
        new.rename_to(name).map_err(failed)?;
        fsync(&directory).map_err(failed)
    }

    /// Returns the metadata of the existing file. Fails if it is not a regular file, or has changed.
    fn check_old(
        &self,
        directory: &OwnedFd,
        path: &WorkspacePath,
        name: &str,
        expected: Option<&Stat>,
    ) -> Result<Option<Stat>> {
        let old = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(old) => Some(old),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(Error::io(path, error)),
        };
        if let Some(old) = &old {
            let kind = FileType::from_raw_mode(old.st_mode);
            if kind != FileType::RegularFile {
                return Err(wrong_type_error(path, kind, "a file"));
            }
        }
        match (expected, &old) {
            (None, _) => Ok(old),
            (Some(expected), Some(current)) if is_unchanged(expected, current) => Ok(old),
            (Some(_), _) => Err(Error::Changed { path: path.to_string() }),
        }
    }

    /// Opens a directory and creates it with its parents if necessary.
    fn make_directory(&self, path: &WorkspacePath) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut missing = Vec::new();
        let mut current = path.clone();
        let mut directory = loop {
            match self.0.method.open(self.root(), &current, flags) {
                Ok(directory) => break directory,
                Err(Errno::NOENT) => {}
                Err(error) => return Err(open_error(&current, error)),
            }
            let Some((parent, name)) = current.split() else {
                return Err(Error::NotFound { path: current.to_string() });
            };
            missing.push(name.to_owned());
            current = parent;
        };
        while let Some(name) = missing.pop() {
            match mkdirat(&directory, &*name, Mode::from_raw_mode(DIRECTORY_MODE)) {
                Ok(()) => fsync(&directory).map_err(|error| Error::io(path, error))?,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(Error::io(path, error)),
            }
            directory = open_in(directory.as_fd(), &name, flags)
                .map_err(|error| open_error(path, error))?;
        }
        Ok(directory)
    }
}

/// Returns true if two reads of metadata show the same inode, size and times of change: the file was not written in
/// between.
fn is_unchanged(a: &Stat, b: &Stat) -> bool {
    let key = |stat: &Stat| {
        (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime)
    };
    key(a) == key(b) && a.st_ctime_nsec == b.st_ctime_nsec
}

/// A temporary file. It is deleted unless it is renamed.
struct TempFile<'a> {
    directory: &'a OwnedFd,
    name: String,
    file: OwnedFd,
    is_renamed: bool,
}

impl<'a> TempFile<'a> {
    /// Creates an empty temporary file with a random name.
    fn create(directory: &'a OwnedFd) -> std::result::Result<Self, Errno> {
        let name = format!("{TEMP_PREFIX}{:016x}{TEMP_SUFFIX}", Env::system().random());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(directory, &*name, flags, Mode::from_raw_mode(FILE_MODE))?;
        Ok(Self { directory, name, file, is_renamed: false })
    }

    /// Renames the file within its directory, in place of an existing file with that name.
    fn rename_to(mut self, name: &str) -> std::result::Result<(), Errno> {
        renameat(self.directory, &*self.name, self.directory, name)?;
        self.is_renamed = true;
        Ok(())
    }
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        if !self.is_renamed {
            unlinkat(self.directory, &*self.name, AtFlags::empty()).ok();
        }
    }
}
