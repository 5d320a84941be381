//! `list`: what is in a directory, or all files below it that fit a glob.

use std::os::fd::AsFd;

use provost_tool::{EffectClass, FnTool, SpecError, ToolError, tool_fn};
use provost_workspace::limits::DIRECTORY_ENTRIES_MAX;
use provost_workspace::text::{count, shown_name};
use provost_workspace::walk::{Flow, Pattern, walk};
use provost_workspace::{Entries, Entry, InnerPath, Workspace, kind_name};
use provost_workspace::{Error, Result, check_stopped};
use rustix::fs::{AtFlags, FileType, readlinkat, statat};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::blocking;
use crate::limits::{CONTENT_BYTES_MAX, OUTPUT_LINES_MAX};

const DESCRIPTION: &str = "Lists a directory of the workspace: names with sizes, directories with a slash. With a \
     glob it lists all files below that fit, without those that .gitignore leaves out.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path of the directory, relative to the workspace; `.` is the workspace itself.
    #[serde(default = "here")]
    path: String,
    /// Only files below that fit, such as `*.rs` or `src/**/*.ts`.
    #[serde(default)]
    glob: String,
    /// Entry to begin with; the first is 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    offset: u64,
}

pub(crate) fn here() -> String {
    ".".to_owned()
}

fn one() -> u64 {
    1
}

/// The tool `list`.
pub fn list(workspace: &Workspace) -> std::result::Result<FnTool, SpecError> {
    let workspace = workspace.clone();
    let tool = tool_fn("list", DESCRIPTION, move |_cx, arguments: Arguments| {
        let workspace = workspace.clone();
        async move {
            let text = blocking::run(move |stop| listing(&workspace, &arguments, stop)).await?;
            Ok::<_, ToolError>(text)
        }
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure)))
}

fn listing(
    workspace: &Workspace,
    arguments: &Arguments,
    stop: &CancellationToken,
) -> Result<String> {
    let path = InnerPath::parse(&arguments.path)?;
    let mut page = Lines::new(arguments.offset.max(1));
    let mut notes = Vec::new();
    if arguments.glob.is_empty() {
        let directory = workspace.open_directory(&path)?;
        let read = Entries::read(&directory, &path)?;
        for entry in &read.entries {
            check_stopped(stop)?;
            page.push(|| describe(&directory, entry));
        }
        if read.is_cut {
            notes.push(format!("[only the first {DIRECTORY_ENTRIES_MAX} entries were read]"));
        }
    } else {
        let glob = Pattern::parse(&arguments.glob)?;
        let left_out = walk(workspace, &path, stop, |found, _| {
            if glob.fits(found.below) {
                page.push(|| shown_name(found.path.as_str().as_bytes()));
            }
            Ok(Flow::On)
        })?;
        notes = left_out.notes();
    }
    page.finish(&notes)
}

/// One line about one entry.
fn describe(directory: impl AsFd, entry: &Entry) -> String {
    let name = shown_name(&entry.name);
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
            Ok(target) => format!("{name} -> {}", shown_name(target.as_bytes())),
            Err(_) => format!("{name} ->"),
        },
        other => format!("{name} [{}]", kind_name(other)),
    };
    format!("{shown}{note}")
}

/// Those lines of a list that are shown; the others are counted.
struct Lines {
    first: u64,
    text: String,
    shown: u64,
    seen: u64,
    is_full: bool,
}

impl Lines {
    fn new(first: u64) -> Self {
        Self { first, text: String::new(), shown: 0, seen: 0, is_full: false }
    }

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

    fn finish(self, notes: &[String]) -> Result<String> {
        let entries = count(self.seen, "entry");
        if self.shown == 0 && self.seen > 0 {
            return Err(Error::Argument(format!(
                "offset {} is behind the end: there are {entries}",
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
            text.push_str("[nothing is there]\n");
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
