//! Directory listings through a descriptor.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, statat};

use super::path::WorkspacePath;
use super::replace::is_temp_file;
use crate::error::{Error, Result};
use crate::limits::DIRECTORY_ENTRIES_MAX;

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DirectoryEntry {
    /// Name. Not necessarily UTF-8.
    pub name: Vec<u8>,
    /// File type.
    pub kind: FileType,
}

/// The entries of a directory, sorted by name.
#[derive(Debug)]
pub struct DirectoryEntries {
    /// The entries.
    pub entries: Vec<DirectoryEntry>,
    /// True if the directory has more entries than the limit.
    pub is_cut: bool,
}

impl DirectoryEntries {
    /// Reads the entries of a directory, sorted by name, without temporary files. More than [`DIRECTORY_ENTRIES_MAX`]
    /// entries are cut. The descriptor remains usable.
    pub fn read(directory: &OwnedFd, path: &WorkspacePath) -> Result<Self> {
        let failed = |error: rustix::io::Errno| Error::io(path, error);
        let mut entries = Vec::new();
        let mut is_cut = false;
        for entry in Dir::read_from(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || is_temp_file(name) {
                continue;
            }
            if entries.len() == DIRECTORY_ENTRIES_MAX {
                is_cut = true;
                break;
            }
            let kind = match entry.file_type() {
                // Some file systems do not report the type here.
                FileType::Unknown => kind_of(directory.as_fd(), name),
                kind => kind,
            };
            entries.push(DirectoryEntry { name: name.to_vec(), kind });
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { entries, is_cut })
    }
}

/// Returns the file type of a name in a directory. [`FileType::Unknown`] if it cannot be determined.
fn kind_of(directory: BorrowedFd<'_>, name: &[u8]) -> FileType {
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}
