//! What `.gitignore` and `.ignore` files leave out.

use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd};

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use rustix::fs::{FileType, OFlags, fstat};

use crate::limits::IGNORE_FILE_BYTES_MAX;
use crate::root::{InnerPath, Workspace, open_in};

/// The files with rules; of two, the later one has the last word.
const FILES: [&str; 2] = [".gitignore", ".ignore"];

/// The rules of a directory and of those above it.
pub(super) struct Rules {
    levels: Vec<Option<Gitignore>>,
}

impl Rules {
    /// The rules of the directories above one.
    pub(super) fn above(workspace: &Workspace, path: &InnerPath) -> Self {
        let mut rules = Self { levels: Vec::new() };
        let mut place = InnerPath::root();
        for name in path.names() {
            match workspace.open_directory(&place) {
                Ok(directory) => rules.enter(directory.as_fd(), &place),
                Err(_) => rules.levels.push(None),
            }
            place = place.join(name);
        }
        rules
    }

    /// Takes in the rules of a directory. Files that cannot be used, and lines that are no rules, have no effect.
    pub(super) fn enter(&mut self, directory: BorrowedFd<'_>, path: &InnerPath) {
        let mut builder: Option<GitignoreBuilder> = None;
        for text in FILES.iter().filter_map(|name| read(directory, name)) {
            let builder = builder.get_or_insert_with(|| GitignoreBuilder::new(path.as_str()));
            for line in text.lines() {
                builder.add_line(None, line).ok();
            }
        }
        self.levels.push(builder.and_then(|builder| builder.build().ok()));
    }

    /// Forgets the rules of the last directory.
    pub(super) fn leave(&mut self) {
        self.levels.pop();
    }

    /// Do the rules leave out this path? The nearest rule decides.
    pub(super) fn leave_out(&self, path: &str, is_directory: bool) -> bool {
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
