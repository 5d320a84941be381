//! Rules of `.gitignore` and `.ignore` files.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{FileType, OFlags, fstat};

use crate::limits::IGNORE_FILE_BYTES_MAX;
use crate::root::{WorkspacePath, WorkspaceRoot, open_in};

/// Files with rules. The later file takes precedence.
const FILES: [&str; 2] = [".gitignore", ".ignore"];

/// The rules of a directory and its ancestors.
pub(super) struct IgnoreRules {
    levels: Vec<Option<Gitignore>>,
}

impl IgnoreRules {
    /// Reads the ignore files of all ancestors of a directory, without the directory itself.
    pub(super) fn of_ancestors(workspace: &WorkspaceRoot, path: &WorkspacePath) -> Self {
        let mut rules = Self { levels: Vec::new() };
        let mut directory_path = WorkspacePath::root();
        for name in path.names() {
            match workspace.open_directory(&directory_path) {
                Ok(directory) => rules.push(directory.as_fd(), &directory_path),
                Err(_) => rules.levels.push(None),
            }
            directory_path = directory_path.join(name);
        }
        rules
    }

    /// Adds the rules of a directory. Unreadable files and invalid lines have no effect.
    pub(super) fn push(&mut self, directory: BorrowedFd<'_>, path: &WorkspacePath) {
        let mut builder: Option<GitignoreBuilder> = None;
        for text in FILES.iter().filter_map(|name| read(directory, name)) {
            let builder = builder.get_or_insert_with(|| GitignoreBuilder::new(path.as_str()));
            for line in text.lines() {
                builder.add_line(None, line).ok();
            }
        }
        self.levels.push(builder.and_then(|builder| builder.build().ok()));
    }

    /// Removes the rules of the last directory.
    pub(super) fn pop(&mut self) {
        self.levels.pop();
    }

    /// Returns true if the rules exclude the path. The nearest rule decides.
    pub(super) fn is_ignored(&self, path: &str, is_directory: bool) -> bool {
        for rules in self.levels.iter().rev().flatten() {
            match rules.matched(path, is_directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

/// Returns the first [`IGNORE_FILE_BYTES_MAX`] bytes of an ignore file. `None` if it is not a readable regular file.
fn read(directory: BorrowedFd<'_>, name: &str) -> Option<String> {
    let opened = open_in(directory, name, OFlags::RDONLY | OFlags::NONBLOCK).ok()?;
    let stat = fstat(&opened).ok()?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return None;
    }
    let mut bytes = Vec::new();
    File::from(opened).take(IGNORE_FILE_BYTES_MAX).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}
