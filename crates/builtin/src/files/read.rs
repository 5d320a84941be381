//! `read`: lines of a text file.
//!
//! Invariants: however large the file is, memory holds one page and one buffer; every page moves on by at least one line; secrets
//! are taken out of the file before it is cut into pages, so that none lies half on one and half on the next. Lines are those of
//! what is left.

mod page;

use std::io::{ErrorKind, Read};

use provost_redact::Redact;
use provost_tool::{EffectClass, FnTool, SpecError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

use provost_workspace::text::count;
use provost_workspace::{Error, Result, check_stopped};
use provost_workspace::{InnerPath, Workspace};
use tokio_util::sync::CancellationToken;

pub(crate) use self::page::Page;

use crate::blocking;
use crate::limits::{OUTPUT_LINES_MAX, READ_COUNT_BYTES_MAX, READ_SEEK_BYTES_MAX, SNIFF_BYTES};

/// Bytes that are read at once.
const BUFFER_BYTES: usize = 64 * 1024;

const DESCRIPTION: &str = "Reads a text file of the workspace. Shows up to 2000 lines or 50 KiB; the last \
     line of a shortened answer says with which offset to go on.";

const OUTPUT_DESCRIPTION: &str = "Reads an output of a tool that was too long to be shown whole, by the path that \
     stood below it. Shows up to 2000 lines or 50 KiB; the last line of a shortened answer says with which offset to go on.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path of the file, relative to the workspace.
    path: String,
    /// Line to begin with; the first is 1.
    #[serde(default = "one")]
    #[schemars(range(min = 1))]
    offset: u64,
    /// Lines to show at most; 0 shows as many as fit.
    #[serde(default)]
    limit: u64,
}

fn one() -> u64 {
    1
}

/// The tool `read`.
pub fn read(workspace: &Workspace) -> std::result::Result<FnTool, SpecError> {
    reader(workspace, "read", DESCRIPTION)
}

/// The tool `read_output`: the same for the place where outputs are kept that were too long to be shown.
pub fn read_output(kept: &Workspace) -> std::result::Result<FnTool, SpecError> {
    reader(kept, "read_output", OUTPUT_DESCRIPTION)
}

fn reader(
    workspace: &Workspace,
    name: &str,
    description: &str,
) -> std::result::Result<FnTool, SpecError> {
    let workspace = workspace.clone();
    let tool = tool_fn(name, description, move |cx, arguments: Arguments| {
        let workspace = workspace.clone();
        async move {
            let redact = cx.redactor().cloned();
            let read =
                blocking::run(move |stop| page_of(&workspace, &arguments, redact.as_deref(), stop));
            read.await
        }
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure)))
}

fn page_of(
    workspace: &Workspace,
    arguments: &Arguments,
    redact: Option<&dyn Redact>,
    stop: &CancellationToken,
) -> Result<String> {
    let path = InnerPath::parse(&arguments.path)?;
    let mut opened = workspace.open_file(&path)?;
    let size = u64::try_from(opened.stat.st_size).unwrap_or(0);
    let lines_max = match usize::try_from(arguments.limit) {
        Ok(limit @ 1..OUTPUT_LINES_MAX) => limit,
        _ => OUTPUT_LINES_MAX,
    };
    let mut page = Page::new(arguments.offset.max(1), lines_max);
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut clean = redact.map(Redact::stream);
    // How much of the file was read, and how much of it came to the page.
    let (mut offset, mut given): (u64, u64) = (0, 0);
    loop {
        check_stopped(stop)?;
        let length = read_some(&mut opened.file, &mut buffer).map_err(|e| Error::io(&path, e))?;
        let bytes = &buffer[..length];
        if offset == 0 && is_binary(bytes) {
            return Err(Error::Content(format!(
                "`{path}` is a binary file of {size} bytes: only text can be read"
            )));
        }
        if length == 0 {
            if let Some(clean) = clean {
                page.push(&clean.finish());
            }
            return page.finish(path.as_str(), offset);
        }
        offset += length as u64;
        given += match &mut clean {
            None => page.take(bytes),
            Some(clean) => page.take(&clean.push(bytes)),
        };
        match page.filled_at() {
            None if offset > READ_SEEK_BYTES_MAX => {
                return Err(Error::Content(format!(
                    "line {} of `{path}` is more than {READ_SEEK_BYTES_MAX} bytes from its start: search for what \
                     you need",
                    arguments.offset
                )));
            }
            Some(at) if given - at > READ_COUNT_BYTES_MAX => {
                return page.finish_early(path.as_str(), size.max(offset));
            }
            _ => {}
        }
    }
}

/// Is there a byte that no text has?
pub(crate) fn is_binary(start: &[u8]) -> bool {
    memchr::memchr(0, &start[..start.len().min(SNIFF_BYTES)]).is_some()
}

/// Reads what there is; nothing means the end.
fn read_some(file: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match file.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// What the header of a page says.
fn header(first: u64, shown: u64, lines: &str, bytes: u64) -> String {
    let bytes = count(bytes, "byte");
    if first == 1 {
        return format!("[showing first {shown} of {lines} ({bytes} total)]");
    }
    format!("[showing lines {first} to {} of {lines} ({bytes} total)]", first + shown - 1)
}

#[cfg(test)]
mod tests;
