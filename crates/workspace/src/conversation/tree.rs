//! Reading and writing a file tree without leaving it.
//!
//! Programs may change the workspace during a scan. Each name is opened relative to its directory without following
//! links, so a directory that is replaced by a link leads nowhere.

use std::fs::{self, DirBuilder, File};
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Component, Path, PathBuf};

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, percent_encode};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, openat, readlinkat, statat};

use super::record::ManifestEntry;
use crate::limits::WORKSPACE_DEPTH_MAX;

/// Bytes of a path that are percent-encoded.
const ENCODED: &AsciiSet = &CONTROLS.add(b'%');
/// Stored permission bits. Set-user-id and set-group-id bits are dropped.
const MODE: u32 = 0o777;

/// Detects changes of a file. Programs cannot set the change time of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileStamp {
    inode: u64,
    size: u64,
    modified: (i64, u64),
    changed: (i64, u64),
}

/// One entry of a scan.
pub(super) enum ScanEntry {
    /// A directory or a link.
    Complete(ManifestEntry),
    /// An opened file.
    File {
        /// Open file for reading the content.
        file: File,
        /// Permissions.
        mode: u32,
        /// Detects changes of the file.
        stamp: FileStamp,
    },
}

/// Visits a tree, each directory before its content. Skips entries that are neither a file, a directory nor a link.
pub(super) fn walk(
    root: &Path,
    visit: &mut dyn FnMut(String, ScanEntry) -> io::Result<()>,
) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let dir = rustix::fs::open(root, flags, Mode::empty())?;
    scan_dir(&dir, Path::new(""), 0, visit)
}

/// Visits the entries of an open directory recursively. Fails below [`WORKSPACE_DEPTH_MAX`] levels. Entries that
/// disappear are skipped.
fn scan_dir(
    dir: &OwnedFd,
    path: &Path,
    depth: usize,
    visit: &mut dyn FnMut(String, ScanEntry) -> io::Result<()>,
) -> io::Result<()> {
    if depth > WORKSPACE_DEPTH_MAX {
        return Err(io::Error::other(format!(
            "directories are nested deeper than {WORKSPACE_DEPTH_MAX} levels"
        )));
    }
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        let path = path.join(std::ffi::OsStr::from_bytes(name.to_bytes()));
        match scan_entry(dir.as_fd(), name) {
            Ok(Some((entry, inner))) => {
                visit(encoded(path.as_os_str().as_bytes()), entry)?;
                if let Some(inner) = inner {
                    scan_dir(&inner, &path, depth + 1, visit)?;
                }
            }
            Ok(None) => {}
            // The entry was removed or replaced since it was listed.
            Err(error) if is_gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns true for the error of an entry that was removed or replaced.
fn is_gone(error: &io::Error) -> bool {
    let raw = error.raw_os_error().map(rustix::io::Errno::from_raw_os_error);
    let errors = [rustix::io::Errno::NOENT, rustix::io::Errno::LOOP, rustix::io::Errno::NOTDIR];
    raw.is_some_and(|raw| errors.contains(&raw))
}

/// Examines a name in a directory without following links. Opens it if it is a file or a directory. `None` for other
/// file types.
fn scan_entry(
    dir: BorrowedFd<'_>,
    name: &std::ffi::CStr,
) -> io::Result<Option<(ScanEntry, Option<OwnedFd>)>> {
    let stat = statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    // A pipe that replaces the file must not block this thread.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => {
            let inner = openat(dir, name, flags | OFlags::DIRECTORY, Mode::empty())?;
            let mode = fstat(&inner)?.st_mode & MODE;
            Some((ScanEntry::Complete(ManifestEntry::Dir { mode }), Some(inner)))
        }
        FileType::RegularFile => {
            let file = openat(dir, name, flags, Mode::empty())?;
            let stat = fstat(&file)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
                return Ok(None);
            }
            let (mode, stamp) = (stat.st_mode & MODE, FileStamp::of(&stat));
            Some((ScanEntry::File { file: file.into(), mode, stamp }, None))
        }
        FileType::Symlink => {
            let to = readlinkat(dir, name, Vec::new())?;
            Some((ScanEntry::Complete(ManifestEntry::Link { to: encoded(to.as_bytes()) }), None))
        }
        _ => None,
    })
}

impl FileStamp {
    /// Returns the stamp of a file from its metadata.
    fn of(stat: &Stat) -> Self {
        Self {
            inode: stat.st_ino,
            size: u64::try_from(stat.st_size).unwrap_or_default(),
            modified: (stat.st_mtime, stat.st_mtime_nsec),
            changed: (stat.st_ctime, stat.st_ctime_nsec),
        }
    }

    /// Returns the size of the file, in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }
}

/// Reads a file completely. Fails with [`io::ErrorKind::FileTooLarge`] if it has more than `bytes_max` bytes, also if
/// it grows during the read.
pub(super) fn read(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > bytes_max {
        true => Err(io::ErrorKind::FileTooLarge.into()),
        false => Ok(bytes),
    }
}

/// Creates a file, directory or link below a directory that no other code uses yet.
pub(super) fn create(
    root: &Path,
    path: &str,
    entry: &ManifestEntry,
    bytes: &[u8],
) -> io::Result<()> {
    let path = relative_path(path)?;
    let path = root.join(path);
    match entry {
        ManifestEntry::Dir { .. } => DirBuilder::new().mode(0o700).create(&path),
        ManifestEntry::Link { to } => {
            let to: Vec<u8> = percent_decode_str(to).collect();
            std::os::unix::fs::symlink(std::ffi::OsString::from_vec(to), &path)
        }
        ManifestEntry::File { mode, .. } => {
            let mut file =
                fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
            file.write_all(bytes)?;
            file.set_permissions(fs::Permissions::from_mode(mode & MODE))
        }
    }
}

/// Sets the permissions of a directory. Called after its content was created, because they may forbid that.
pub(super) fn finish_dir(root: &Path, path: &str, mode: u32) -> io::Result<()> {
    fs::set_permissions(root.join(relative_path(path)?), fs::Permissions::from_mode(mode & MODE))
}

/// Decodes a path of a manifest. Fails if it is empty or leaves the workspace.
fn relative_path(path: &str) -> io::Result<PathBuf> {
    let bytes: Vec<u8> = percent_decode_str(path).collect();
    let path = PathBuf::from(std::ffi::OsString::from_vec(bytes));
    let is_inner = path.components().all(|part| matches!(part, Component::Normal(_)));
    if is_inner && path.components().next().is_some() {
        return Ok(path);
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "a path of the snapshot leaves the workspace"))
}

/// Percent-encodes a path for a manifest.
fn encoded(bytes: &[u8]) -> String {
    percent_encode(bytes, ENCODED).to_string()
}
