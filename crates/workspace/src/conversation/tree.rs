//! Reading and writing a tree of files without ever leaving it.
//!
//! Whoever works in a workspace may change it while it is read: each name is opened below the directory it was found in and
//! no link is followed, so a directory that becomes a link in between leads nowhere.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};

use super::record::Entry;
use crate::limits::WORKSPACE_DEPTH_MAX;

/// Bytes of a path that do not stand for themselves.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');
/// Permissions that are kept: no file is anybody else's when it runs.
const MODE: u32 = 0o777;

/// What tells that a file is what it was: nobody can set when its inode was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, u64),
    changed: (i64, u64),
}

/// One thing that was found.
pub(super) enum Sight {
    /// A directory or a link.
    Known(Entry),
    /// A file, opened.
    File {
        /// What it holds, to be read.
        file: File,
        /// Its permissions.
        mode: u32,
        /// What tells that it is what it was.
        stamp: Stamp,
    },
}

/// Walks through a tree: each directory before what is in it. What is neither a file, a directory nor a link is left out.
pub(super) fn walk(
    root: &Path,
    each: &mut dyn FnMut(String, Sight) -> io::Result<()>,
) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(root, flags, Mode::empty())?;
    below(&dir, Path::new(""), 0, each)
}

fn below(
    dir: &OwnedFd,
    path: &Path,
    depth: usize,
    each: &mut dyn FnMut(String, Sight) -> io::Result<()>,
) -> io::Result<()> {
    if depth > WORKSPACE_DEPTH_MAX {
        return Err(io::Error::other(format!(
            "it has more than {WORKSPACE_DEPTH_MAX} directories inside each other"
        )));
    }
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let path = path.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
        match sight(dir.as_fd(), name) {
            Ok(Some((sight, inner))) => {
                each(encoded(path.as_os_str().as_bytes()), sight)?;
                if let Some(inner) = inner {
                    below(&inner, &path, depth + 1, each)?;
                }
            }
            Ok(None) => {}
            // It is gone since it was listed, or was swapped for something else.
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn is_gone(error: &io::Error) -> bool {
    let raw = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    let gone = [rustix::io::Errno::NOENT, rustix::io::Errno::LOOP, rustix::io::Errno::NOTDIR];
    raw.is_some_and(|raw| gone.contains(&raw))
}

/// Looks at a name below a directory; for a directory, opens it.
fn sight(
    dir: BorrowedFd<'_>,
    name: &std::ffi::CStr,
) -> io::Result<Option<(Sight, Option<OwnedFd>)>> {
    let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    // A pipe that is put in the place of a file must not hold us.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            let inner = openat(dir, name, flags | OFlags::DIRECTORY, Mode::empty())?;
            let mode = fstat(&inner)?.st_mode & MODE;
            Some((Sight::Known(Entry::Dir { mode }), Some(inner)))
        }
        FileType::RegularFile => {
            let file = openat(dir, name, flags, Mode::empty())?;
            let stat = fstat(&file)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                return Ok(None);
            }
            let (mode, stamp) = (stat.st_mode & MODE, Stamp::of(&stat));
            Some((Sight::File { file: file.into(), mode, stamp }, None))
        }
        FileType::Symlink => {
            let to = readlinkat(dir, name, Vec::new())?;
            Some((Sight::Known(Entry::Link { to: encoded(to.as_bytes()) }), None))
        }
        _ => None,
    })
}

impl Stamp {
    fn of(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Bytes of the file.
    pub(super) fn size(&self) -> u64 {
        self.size
    }
}

/// Reads a file that may grow meanwhile.
pub(super) fn read(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(bytes),
    }
}

/// Makes a file, a directory or a link below a directory that nobody else knows yet.
pub(super) fn make(root: &Path, path: &str, entry: &Entry, bytes: &[u8]) -> io::Result<()> {
    let path = inner(path)?;
    let path = root.join(path);
    match entry {
        Entry::Dir { .. } => DirBuilder::new().mode(0o700).create(&path),
        Entry::Link { to } => {
            let to: Vec<u8> = percent_decode_str(to).collect();
            std::os::unix::fs::symlink(std::ffi::OsString::from_vec(to), &path)
        }
        Entry::File { mode, .. } => {
            let mut file =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(bytes)?;
            file.set_permissions(fs::Permissions::from_mode(mode & MODE))
        }
    }
}

/// Gives a directory its permissions, once everything is in it.
pub(super) fn finish_dir(root: &Path, path: &str, mode: u32) -> io::Result<()> {
    fs::set_permissions(root.join(inner(path)?), fs::Permissions::from_mode(mode & MODE))
}

fn inner(path: &str) -> io::Result<PathBuf> {
    let bytes: Vec<u8> = percent_decode_str(path).collect();
    let path = PathBuf::from(std::ffi::OsString::from_vec(bytes));
    let is_inner = path.components().all(|part| matches!(part, Component::Normal(_)));
    if is_inner && path.components().next().is_some() {
        return Ok(path);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "a path of the snapshot leads out of it"))
}

fn encoded(bytes: &[u8]) -> String {
    percent_encode(bytes, ENCODED).to_string()
}
