//! A walk through directories by their descriptors, past what `.gitignore` and `.ignore` leave out.
//!
//! Invariant: no link is followed, so the walk stays below where it began whatever others do meanwhile; entries, depth and rules
//! are bounded.

mod glob;
mod ignore_files;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, OFlags};

pub use self::glob::Pattern;

use self::ignore_files::Rules;
use crate::error::Result;
use crate::limits::{WALK_DEPTH_MAX, WALK_ENTRIES_MAX};
use crate::root::{Entries, Entry, InnerPath, Workspace, check_stopped, open_in};
use crate::text::count;
use tokio_util::sync::CancellationToken;

/// A file that a walk came to.
#[derive(Debug)]
pub struct Found<'a> {
    /// The directory that it is in.
    pub directory: BorrowedFd<'a>,
    /// Its name there.
    pub name: &'a str,
    /// Its path from the root of the workspace.
    pub path: &'a InnerPath,
    /// Its path from where the walk began.
    pub below: &'a str,
}

/// Whether to go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// Visit the next file.
    On,
    /// Stop.
    Enough,
}

/// What a walk left out because of its bounds.
#[derive(Debug, Default)]
pub struct LeftOut {
    entries: u64,
    deep: u64,
    names: u64,
    unreadable: u64,
}

impl LeftOut {
    /// Something that could not be read.
    pub fn add_unreadable(&mut self) {
        self.unreadable += 1;
    }

    /// One sentence for each thing, on lines of their own.
    pub fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.entries > 0 {
            notes.push(format!(
                "[stopped after {WALK_ENTRIES_MAX} entries: begin further down with path]"
            ));
        }
        if self.deep > 0 {
            notes.push(format!("[{} too deep to enter]", count(self.deep, "directory")));
        }
        if self.names > 0 {
            let entries = count(self.names, "entry");
            notes.push(format!("[{entries} left out: the name is not UTF-8]"));
        }
        if self.unreadable > 0 {
            notes.push(format!("[{} could not be read]", count(self.unreadable, "entry")));
        }
        notes
    }
}

struct Level {
    directory: OwnedFd,
    path: InnerPath,
    entries: std::vec::IntoIter<Entry>,
}

/// Visits the regular files below a directory, in the order of their names.
pub fn walk(
    workspace: &Workspace,
    start: &InnerPath,
    stop: &CancellationToken,
    mut visit: impl FnMut(&Found<'_>, &mut LeftOut) -> Result<Flow>,
) -> Result<LeftOut> {
    let mut left_out = LeftOut::default();
    let directory = workspace.open_directory(start)?;
    let mut rules = Rules::above(workspace, start);
    let mut seen = 0usize;
    let mut levels = vec![enter(directory, start.clone(), &mut rules, &mut left_out)?];
    let start_length = if start.is_root() { 0 } else { start.as_str().len() + 1 };
    loop {
        let depth = levels.len();
        let Some(level) = levels.last_mut() else { break };
        let Some(entry) = level.entries.next() else {
            levels.pop();
            rules.leave();
            continue;
        };
        check_stopped(stop)?;
        seen += 1;
        if seen > WALK_ENTRIES_MAX {
            left_out.entries += 1;
            break;
        }
        let Ok(name) = std::str::from_utf8(&entry.name) else {
            left_out.names += 1;
            continue;
        };
        let path = level.path.join(name);
        let is_directory = entry.kind == FileType::Directory;
        // What git keeps for itself is no part of the work.
        if name == ".git" || rules.leave_out(path.as_str(), is_directory) {
            continue;
        }
        if entry.kind == FileType::RegularFile {
            let directory = level.directory.as_fd();
            let below = &path.as_str()[start_length..];
            let found = Found { directory, name, path: &path, below };
            if visit(&found, &mut left_out)? == Flow::Enough {
                break;
            }
        } else if is_directory && depth >= WALK_DEPTH_MAX {
            left_out.deep += 1;
        } else if is_directory {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            match open_in(level.directory.as_fd(), name, flags) {
                Ok(opened) => levels.push(enter(opened, path, &mut rules, &mut left_out)?),
                Err(_) => left_out.unreadable += 1,
            }
        }
    }
    Ok(left_out)
}

fn enter(
    directory: OwnedFd,
    path: InnerPath,
    rules: &mut Rules,
    left_out: &mut LeftOut,
) -> Result<Level> {
    let read = Entries::read(&directory, &path)?;
    left_out.entries += u64::from(read.is_cut);
    rules.enter(directory.as_fd(), &path);
    Ok(Level { directory, path, entries: read.entries.into_iter() })
}
