//! What is in a directory, read by its descriptor.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, statat};

use super::path::InnerPath;
use super::replace::is_unfinished;
use crate::error::{Error, Result};
use crate::limits::DIRECTORY_ENTRIES_MAX;

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name; it need not be UTF-8.
    pub name: Vec<u8>,
    /// What it is.
    pub kind: FileType,
}

/// The entries of a directory in the order of their names.
#[derive(Debug)]
pub struct Entries {
    /// The entries.
    pub entries: Vec<Entry>,
    /// True if there are more than are looked at.
    pub is_cut: bool,
}

impl Entries {
    /// Reads them. The descriptor can still be used.
    pub fn read(directory: &OwnedFd, path: &InnerPath) -> Result<Self> {
        let failed = |error: rustix::io::Errno| Error::io(path, error);
        let mut entries = Vec::new();
        let mut is_cut = false;
        for entry in Dir::read_from(directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") || is_unfinished(name) {
                continue;
            }
            if entries.len() == DIRECTORY_ENTRIES_MAX {
                is_cut = true;
                break;
            }
            let kind = match entry.file_type() {
                // Some file systems do not tell it here.
                FileType::Unknown => kind_of(directory.as_fd(), name),
                kind => kind,
            };
            entries.push(Entry { name: name.to_vec(), kind });
        }
        entries.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(Self { entries, is_cut })
    }
}

fn kind_of(directory: BorrowedFd<'_>, name: &[u8]) -> FileType {
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode))
}
