//! The `list` tool: the entries of a directory, or all files below it that match a glob.

use std::os::fd::AsFd;

use provost_tool::{EffectClass, FnTool, ToolError, ToolSpecError, tool_fn};
use provost_workspace::limits::DIRECTORY_ENTRIES_MAX;
use provost_workspace::text::{count, escape_name};
use provost_workspace::walk::{Glob, WalkControl, walk};
use provost_workspace::{
    DirectoryEntries, DirectoryEntry, WorkspacePath, WorkspaceRoot, kind_name,
};
use provost_workspace::{Error, Result, check_cancelled};
use rustix::fs::{AtFlags, FileType, readlinkat, statat};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::blocking;
use crate::limits::{CONTENT_BYTES_MAX, OUTPUT_LINES_MAX};

const DESCRIPTION: &str = "Lists a directory of the workspace: names with sizes, directories with a slash. With a \
     glob it lists all matching files below, except those that .gitignore excludes.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ListArguments {
    /// Path of the directory, relative to the workspace; `.` is the workspace itself.
    #[serde(default = "workspace_root")]
    path: String,
    /// Only files below that match, such as `*.rs` or `src/**/*.ts`.
    #[serde(default)]
    glob: String,
    /// Number of the first entry to show; the first entry is 1.
    #[serde(default = "default_offset")]
    #[schemars(range(min = 1))]
    offset: u64,
}

pub(crate) fn workspace_root() -> String {
    ".".to_owned()
}

fn default_offset() -> u64 {
    1
}

/// Creates the `list` tool. It lists a directory, or the files below it that match a glob.
pub fn list(workspace: &WorkspaceRoot) -> std::result::Result<FnTool, ToolSpecError> {
    let workspace = workspace.clone();
    let tool = tool_fn("list", DESCRIPTION, move |_cx, arguments: ListArguments| {
        let workspace = workspace.clone();
        async move {
            let text =
                blocking::run(move |cancel| list_entries(&workspace, &arguments, cancel)).await?;
            Ok::<_, ToolError>(text)
        }
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure)))
}

/// Lists a directory, or the files below it that match a glob, as text.
fn list_entries(
    workspace: &WorkspaceRoot,
    arguments: &ListArguments,
    cancel: &CancellationToken,
) -> Result<String> {
    let path = WorkspacePath::parse(&arguments.path)?;
    let mut page = ListPage::new(arguments.offset.max(1));
    let mut notes = Vec::new();
    if arguments.glob.is_empty() {
        let directory = workspace.open_directory(&path)?;
        let read = DirectoryEntries::read(&directory, &path)?;
        for entry in &read.entries {
            check_cancelled(cancel)?;
            page.push(|| describe_entry(&directory, entry));
        }
        if read.is_cut {
            notes.push(format!("[only the first {DIRECTORY_ENTRIES_MAX} entries were read]"));
        }
    } else {
        let glob = Glob::parse(&arguments.glob)?;
        let skipped = walk(workspace, &path, cancel, |found, _| {
            if glob.matches(found.relative_path) {
                page.push(|| escape_name(found.path.as_str().as_bytes()));
            }
            Ok(WalkControl::Continue)
        })?;
        notes = skipped.notes();
    }
    page.finish(&notes)
}

/// Formats one entry.
fn describe_entry(directory: impl AsFd, entry: &DirectoryEntry) -> String {
    let name = escape_name(&entry.name);
    let note = match std::str::from_utf8(&entry.name) {
        Ok(_) => "",
        Err(_) => " [not UTF-8: cannot be opened]",
    };
    let shown = match entry.kind {
        FileType::Directory => format!("{name}/"),
        FileType::RegularFile => match statat(directory, &*entry.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => {
                let size = u64::try_from(stat.st_size).unwrap_or(0);
                format!("{name} ({})", count(size, "byte"))
            }
            Err(_) => name,
        },
        FileType::Symlink => match readlinkat(directory, &*entry.name, Vec::new()) {
            Ok(target) => format!("{name} -> {}", escape_name(target.as_bytes())),
            Err(_) => format!("{name} ->"),
        },
        other => format!("{name} [{}]", kind_name(other)),
    };
    format!("{shown}{note}")
}

/// The visible page of a list. Entries outside of the page are only counted.
struct ListPage {
    first: u64,
    text: String,
    shown: u64,
    seen: u64,
    is_full: bool,
}

impl ListPage {
    fn new(first: u64) -> Self {
        Self { first, text: String::new(), shown: 0, seen: 0, is_full: false }
    }

    /// Counts an entry, and appends its line if it is on the page and fits.
    fn push(&mut self, line: impl FnOnce() -> String) {
        self.seen += 1;
        if self.seen < self.first || self.is_full {
            return;
        }
        let line = line();
        let fits = self.text.len() + line.len() < CONTENT_BYTES_MAX;
        if (self.shown > 0 && !fits) || self.shown == OUTPUT_LINES_MAX as u64 {
            self.is_full = true;
            return;
        }
        self.text.push_str(&line);
        self.text.push('\n');
        self.shown += 1;
    }

    /// Returns the page with its notes. Returns an error if the page is past the end.
    fn finish(self, notes: &[String]) -> Result<String> {
        let entries = count(self.seen, "entry");
        if self.shown == 0 && self.seen > 0 {
            return Err(Error::Argument(format!(
                "offset {} is past the end: there are {entries}",
                self.first
            )));
        }
        let mut text = String::new();
        if self.shown < self.seen {
            let last = self.first + self.shown - 1;
            text = format!("[showing {} to {last} of {entries}]\n", self.first);
        }
        text.push_str(&self.text);
        if self.seen == 0 {
            text.push_str("[no entries]\n");
        }
        for note in notes {
            text.push_str(note);
            text.push('\n');
        }
        if self.first + self.shown <= self.seen {
            text.push_str(&format!("[Use offset={} to continue]\n", self.first + self.shown));
        }
        text.pop();
        Ok(text)
    }
}

#[cfg(test)]
mod tests;
