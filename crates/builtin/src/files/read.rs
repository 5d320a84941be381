//! The `read` tool: lines of a text file.
//!
//! Invariants: memory usage is one page and one buffer, however large the file is. Every page advances by at least one
//! line. Secrets are removed before the file is split into pages, so that no secret is split between two pages. Line
//! numbers refer to the redacted text.

mod page;

use std::io::{ErrorKind, Read};

use provost_redact::Redact;
use provost_tool::{EffectClass, FnTool, ToolSpecError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

use provost_workspace::text::count;
use provost_workspace::{Error, Result, check_cancelled};
use provost_workspace::{WorkspacePath, WorkspaceRoot};
use tokio_util::sync::CancellationToken;

pub(crate) use self::page::LinePage;

use crate::blocking;
use crate::limits::{OUTPUT_LINES_MAX, READ_COUNT_BYTES_MAX, READ_SEEK_BYTES_MAX, SNIFF_BYTES};

/// Size of the read buffer, in bytes.
const BUFFER_BYTES: usize = 64 * 1024;

const DESCRIPTION: &str = "Reads a text file of the workspace. Returns up to 2000 lines or 50 KiB; the last \
     line of a truncated result states the offset to continue with.";

const OUTPUT_DESCRIPTION: &str = "Reads the complete output of a tool whose result was truncated, by the path stated \
     below that result. Returns up to 2000 lines or 50 KiB; the last line of a truncated result states the offset to continue with.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ReadArguments {
    /// Path of the file, relative to the workspace.
    path: String,
    /// Number of the first line to show; the first line is 1.
    #[serde(default = "default_offset")]
    #[schemars(range(min = 1))]
    offset: u64,
    /// Maximum number of lines to show; 0 shows as many as fit.
    #[serde(default)]
    limit: u64,
}

fn default_offset() -> u64 {
    1
}

/// Creates the `read` tool. It returns a page of lines of a file.
pub fn read(workspace: &WorkspaceRoot) -> std::result::Result<FnTool, ToolSpecError> {
    create_read_tool(workspace, "read", DESCRIPTION)
}

/// Creates the `read_output` tool, which reads the stored artifacts of truncated outputs.
pub fn read_output(artifacts: &WorkspaceRoot) -> std::result::Result<FnTool, ToolSpecError> {
    create_read_tool(artifacts, "read_output", OUTPUT_DESCRIPTION)
}

/// Creates a tool that reads files of a workspace.
fn create_read_tool(
    workspace: &WorkspaceRoot,
    name: &str,
    description: &str,
) -> std::result::Result<FnTool, ToolSpecError> {
    let workspace = workspace.clone();
    let tool = tool_fn(name, description, move |cx, arguments: ReadArguments| {
        let workspace = workspace.clone();
        async move {
            let redact = cx.redactor().cloned();
            let read = blocking::run(move |cancel| {
                read_page(&workspace, &arguments, redact.as_deref(), cancel)
            });
            read.await
        }
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Pure)))
}

/// Reads a page of lines of a file, with secrets removed.
fn read_page(
    workspace: &WorkspaceRoot,
    arguments: &ReadArguments,
    redact: Option<&dyn Redact>,
    cancel: &CancellationToken,
) -> Result<String> {
    let path = WorkspacePath::parse(&arguments.path)?;
    let mut opened = workspace.open_file(&path)?;
    let size = u64::try_from(opened.stat.st_size).unwrap_or(0);
    let lines_max = match usize::try_from(arguments.limit) {
        Ok(limit @ 1..OUTPUT_LINES_MAX) => limit,
        _ => OUTPUT_LINES_MAX,
    };
    let mut page = LinePage::new(arguments.offset.max(1), lines_max);
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut clean = redact.map(Redact::stream);
    // Number of bytes that were read from the file, and that were passed to the page after redaction.
    let (mut offset, mut passed): (u64, u64) = (0, 0);
    loop {
        check_cancelled(cancel)?;
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
        passed += match &mut clean {
            None => page.take(bytes),
            Some(clean) => page.take(&clean.push(bytes)),
        };
        match page.filled_at() {
            None if offset > READ_SEEK_BYTES_MAX => {
                return Err(Error::Content(format!(
                    "line {} of `{path}` is more than {READ_SEEK_BYTES_MAX} bytes from its start: use search \
                     instead",
                    arguments.offset
                )));
            }
            Some(at) if passed - at > READ_COUNT_BYTES_MAX => {
                return page.finish_early(path.as_str(), size.max(offset));
            }
            _ => {}
        }
    }
}

/// Returns true if the text contains a zero byte.
pub(crate) fn is_binary(start: &[u8]) -> bool {
    memchr::memchr(0, &start[..start.len().min(SNIFF_BYTES)]).is_some()
}

/// Reads available bytes into the buffer, and returns their number. Returns 0 at the end.
fn read_some(file: &mut impl Read, buffer: &mut [u8]) -> std::io::Result<usize> {
    loop {
        match file.read(buffer) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            other => return other,
        }
    }
}

/// Formats the header of a page.
fn format_header(first: u64, shown: u64, lines: &str, bytes: u64) -> String {
    let bytes = count(bytes, "byte");
    if first == 1 {
        return format!("[showing first {shown} of {lines} ({bytes} total)]");
    }
    format!("[showing lines {first} to {} of {lines} ({bytes} total)]", first + shown - 1)
}

#[cfg(test)]
mod tests;
