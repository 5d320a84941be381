//! A walk through directories by descriptor, without the files that `.gitignore` and `.ignore` exclude.
//!
//! Invariant: no link is followed, so the walk stays below its start even if directories change concurrently. Entries,
//! depth and rules are limited.

mod glob;
mod ignore_files;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, OFlags};

pub use self::glob::Glob;

use self::ignore_files::IgnoreRules;
use crate::error::Result;
use crate::limits::{WALK_DEPTH_MAX, WALK_ENTRIES_MAX};
use crate::root::{
    DirectoryEntries, DirectoryEntry, WorkspacePath, WorkspaceRoot, check_cancelled, open_in,
};
use crate::text::count;
use tokio_util::sync::CancellationToken;

/// A file that a walk visits.
#[derive(Debug)]
pub struct WalkEntry<'a> {
    /// Directory of the file.
    pub directory: BorrowedFd<'a>,
    /// Name of the file.
    pub name: &'a str,
    /// Path relative to the root of the workspace.
    pub path: &'a WorkspacePath,
    /// Path relative to the start of the walk.
    pub relative_path: &'a str,
}

/// Decision of a visitor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalkControl {
    /// Visit the next file.
    Continue,
    /// End the walk.
    Stop,
}

/// Numbers of entries that a walk skipped because of its limits, their names or errors.
#[derive(Debug, Default)]
pub struct SkipCounts {
    entries: u64,
    deep: u64,
    names: u64,
    unreadable: u64,
}

impl SkipCounts {
    /// Counts an unreadable entry.
    pub fn add_unreadable(&mut self) {
        self.unreadable += 1;
    }

    /// Returns one note per reason, each on one line.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.entries > 0 {
            notes.push(format!(
                "[stopped after {WALK_ENTRIES_MAX} entries: use path to start in a subdirectory]"
            ));
        }
        if self.deep > 0 {
            notes.push(format!("[{} skipped: nested too deeply]", count(self.deep, "directory")));
        }
        if self.names > 0 {
            let entries = count(self.names, "entry");
            notes.push(format!("[{entries} skipped: the name is not UTF-8]"));
        }
        if self.unreadable > 0 {
            notes.push(format!("[{} could not be read]", count(self.unreadable, "entry")));
        }
        notes
    }
}

/// A directory whose entries are being visited.
struct DirFrame {
    directory: OwnedFd,
    path: WorkspacePath,
    entries: std::vec::IntoIter<DirectoryEntry>,
}

/// Visits the regular files below a directory in the order of their names, until the visitor stops or a limit is
/// reached. Skips `.git`, links and paths that ignore files exclude. Returns how many entries it skipped because of
/// limits or errors. An error of the visitor ends the walk.
pub fn walk(
    workspace: &WorkspaceRoot,
    start: &WorkspacePath,
    cancel: &CancellationToken,
    mut visit: impl FnMut(&WalkEntry<'_>, &mut SkipCounts) -> Result<WalkControl>,
) -> Result<SkipCounts> {
    let mut skipped = SkipCounts::default();
    let directory = workspace.open_directory(start)?;
    let mut rules = IgnoreRules::of_ancestors(workspace, start);
    let mut seen = 0usize;
    let mut frames = vec![open_frame(directory, start.clone(), &mut rules, &mut skipped)?];
    let start_length = if start.is_root() { 0 } else { start.as_str().len() + 1 };
    loop {
        let depth = frames.len();
        let Some(frame) = frames.last_mut() else { break };
        let Some(entry) = frame.entries.next() else {
            frames.pop();
            rules.pop();
            continue;
        };
        check_cancelled(cancel)?;
        seen += 1;
        if seen > WALK_ENTRIES_MAX {
            skipped.entries += 1;
            break;
        }
        let Ok(name) = std::str::from_utf8(&entry.name) else {
            skipped.names += 1;
            continue;
        };
        let path = frame.path.join(name);
        let is_directory = entry.kind == FileType::Directory;
        // The internal files of git are not part of the project.
        if name == ".git" || rules.is_ignored(path.as_str(), is_directory) {
            continue;
        }
        if entry.kind == FileType::RegularFile {
            let directory = frame.directory.as_fd();
            let relative_path = &path.as_str()[start_length..];
            let found = WalkEntry { directory, name, path: &path, relative_path };
            if visit(&found, &mut skipped)? == WalkControl::Stop {
                break;
            }
        } else if is_directory && depth >= WALK_DEPTH_MAX {
            skipped.deep += 1;
        } else if is_directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            match open_in(frame.directory.as_fd(), name, flags) {
                Ok(opened) => frames.push(open_frame(opened, path, &mut rules, &mut skipped)?),
                Err(_) => skipped.unreadable += 1,
            }
        }
    }
    Ok(skipped)
}

/// Reads the entries of a directory and adds its ignore rules. Counts a directory with too many entries as cut.
fn open_frame(
    directory: OwnedFd,
    path: WorkspacePath,
    rules: &mut IgnoreRules,
    skipped: &mut SkipCounts,
) -> Result<DirFrame> {
    let read = DirectoryEntries::read(&directory, &path)?;
    skipped.entries += u64::from(read.is_cut);
    rules.push(directory.as_fd(), &path);
    Ok(DirFrame { directory, path, entries: read.entries.into_iter() })
}
