//! Putting a new file in the place of an old one, whole or not at all.
//!
//! Invariant: the content is written to a file of its own in the same directory, made durable, and then renamed. A crash leaves
//! the old content or the new one, and a link or a file with several names is replaced and not written through.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, OwnedFd};

use provost_core::Env;
use rustix::fs::{
    AtFlags, FileType, Mode, OFlags, Stat, fchmod, fsync, mkdirat, openat, renameat, statat,
    unlinkat,
};
use rustix::io::Errno;

use super::edit_markers::Marks;
use super::open::open_in;
use super::path::InnerPath;
use super::{Workspace, check_stopped, other_kind, refusal};
use crate::error::{Error, Result};
use tokio_util::sync::CancellationToken;

/// How names of files begin that are not finished.
const UNFINISHED_PREFIX: &str = ".provost-";
/// How they end.
const UNFINISHED_SUFFIX: &str = ".unfinished";
/// Rights of a new file, less the umask.
const FILE_MODE: u32 = 0o644;
/// Rights of a new directory, less the umask.
const DIRECTORY_MODE: u32 = 0o755;
/// Rights that a new file takes over from the one it replaces.
const MODE_KEPT: u32 = 0o777;
/// Bytes between two looks at whether anybody still waits.
const CHUNK_BYTES: usize = 256 * 1024;

/// What takes the place of a file.
#[derive(Debug)]
pub struct Replacement<'a> {
    /// The new content.
    pub content: &'a [u8],
    /// What the file was when it was read: one that has changed since is not replaced.
    pub seen: Option<&'a Stat>,
    /// The keys of its edits; without a word those of the old file.
    pub marks: Option<Marks>,
}

/// Is it the name of a file that a crash left unfinished?
pub(super) fn is_unfinished(name: &[u8]) -> bool {
    name.starts_with(UNFINISHED_PREFIX.as_bytes()) && name.ends_with(UNFINISHED_SUFFIX.as_bytes())
}

impl Workspace {
    /// Replaces a file, or makes one with the directories above it.
    pub fn replace(
        &self,
        path: &InnerPath,
        replacement: Replacement<'_>,
        stop: &CancellationToken,
    ) -> Result<()> {
        self.may_write()?;
        let Some((above, name)) = path.split() else {
            return Err(other_kind(path, FileType::Directory, "a file"));
        };
        if is_unfinished(name.as_bytes()) {
            return Err(Error::Argument(format!(
                "`{path}` is a name that the tools use themselves"
            )));
        }
        let directory = match replacement.seen {
            Some(_) => self.resolve(&above, OFlags::RDONLY | OFlags::DIRECTORY)?,
            None => self.make_directory(&above)?,
        };
        let failed = |error: Errno| Error::io(path, error);
        let old = self.check_old(&directory, path, name, replacement.seen)?;
        let new = Unfinished::create(&directory).map_err(failed)?;
        let mut file = File::from(new.file.try_clone().map_err(|error| Error::io(path, error))?);
        for chunk in replacement.content.chunks(CHUNK_BYTES) {
            check_stopped(stop)?;
            file.write_all(chunk).map_err(|error| Error::io(path, error))?;
        }
        file.flush().map_err(|error| Error::io(path, error))?;
        if let Some(old) = &old {
            fchmod(&new.file, Mode::from_raw_mode(old.st_mode & MODE_KEPT)).map_err(failed)?;
        }
        let marks = match (replacement.marks, &old) {
            (Some(marks), _) => marks,
            (None, Some(_)) => open_in(directory.as_fd(), name, OFlags::RDONLY | OFlags::NONBLOCK)
                .ok()
                .and_then(Marks::read)
                .unwrap_or_default(),
            (None, None) => Marks::default(),
        };
        marks.keep(&new.file);
        fsync(&new.file).map_err(failed)?;
        check_stopped(stop)?;
        // Once more, as late as can be.
        self.check_old(&directory, path, name, replacement.seen)?;
        new.take_place(name).map_err(failed)?;
        fsync(&directory).map_err(failed)
    }

    /// What is there now: nothing or a regular file, and nothing else than what was seen.
    fn check_old(
        &self,
        directory: &OwnedFd,
        path: &InnerPath,
        name: &str,
        seen: Option<&Stat>,
    ) -> Result<Option<Stat>> {
        let old = match statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(old) => Some(old),
            Err(Errno::NOENT) => None,
            Err(error) => return Err(Error::io(path, error)),
        };
        if let Some(old) = &old {
            let kind = FileType::from_raw_mode(old.st_mode);
            if kind != FileType::RegularFile {
                return Err(other_kind(path, kind, "a file"));
            }
        }
        match (seen, &old) {
            (None, _) => Ok(old),
            (Some(seen), Some(found)) if same(seen, found) => Ok(old),
            (Some(_), _) => Err(Error::Changed { path: path.to_string() }),
        }
    }

    /// Opens a directory, and makes it and those above it where they are missing.
    fn make_directory(&self, path: &InnerPath) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let mut missing = Vec::new();
        let mut place = path.clone();
        let mut directory = loop {
            match self.0.way.open(self.root(), &place, flags) {
                Ok(directory) => break directory,
                Err(Errno::NOENT) => {}
                Err(error) => return Err(refusal(&place, error)),
            }
            let Some((above, name)) = place.split() else {
                return Err(Error::NotFound { path: place.to_string() });
            };
            missing.push(name.to_owned());
            place = above;
        };
        while let Some(name) = missing.pop() {
            match mkdirat(&directory, &*name, Mode::from_raw_mode(DIRECTORY_MODE)) {
                Ok(()) => fsync(&directory).map_err(|error| Error::io(path, error))?,
                Err(Errno::EXIST) => {}
                Err(error) => return Err(Error::io(path, error)),
            }
            directory =
                open_in(directory.as_fd(), &name, flags).map_err(|error| refusal(path, error))?;
        }
        Ok(directory)
    }
}

/// Nobody wrote to the file between two looks.
fn same(a: &Stat, b: &Stat) -> bool {
    let key = |stat: &Stat| {
        (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime, stat.st_mtime_nsec, stat.st_ctime)
    };
    key(a) == key(b) && a.st_ctime_nsec == b.st_ctime_nsec
}

/// A file on its way to its place; it goes if it does not get there.
struct Unfinished<'a> {
    directory: &'a OwnedFd,
    name: String,
    file: OwnedFd,
    is_placed: bool,
}

impl<'a> Unfinished<'a> {
    fn create(directory: &'a OwnedFd) -> std::result::Result<Self, Errno> {
        let name = format!("{UNFINISHED_PREFIX}{:016x}{UNFINISHED_SUFFIX}", Env::system().random());
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(directory, &*name, flags, Mode::from_raw_mode(FILE_MODE))?;
        Ok(Self { directory, name, file, is_placed: false })
    }

    fn take_place(mut self, name: &str) -> std::result::Result<(), Errno> {
        renameat(self.directory, &*self.name, self.directory, name)?;
        self.is_placed = true;
        Ok(())
    }
}

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        if !self.is_placed {
            unlinkat(self.directory, &*self.name, AtFlags::empty()).ok();
        }
    }
}
