//! `write`: a file as a whole.

use provost_tool::{Approval, EffectClass, FnTool, SpecError, ToolError, tool_fn};
use provost_workspace::{Error, Result};
use provost_workspace::{InnerPath, Replacement, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::blocking;
use crate::limits::WRITE_BYTES_MAX;

const DESCRIPTION: &str = "Writes a whole file of the workspace: makes it, with the directories above it, or \
     replaces what it says. To change a part of a file use edit.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path of the file, relative to the workspace.
    path: String,
    /// Everything that the file shall say.
    content: String,
}

/// The tool `write`. The same bytes to the same place: doing it again changes nothing. A person is asked first.
pub fn write(workspace: &Workspace) -> std::result::Result<FnTool, SpecError> {
    let workspace = workspace.clone();
    let tool = tool_fn("write", DESCRIPTION, move |_cx, arguments: Arguments| {
        let workspace = workspace.clone();
        async move {
            let text = blocking::run(move |stop| put(&workspace, &arguments, stop)).await?;
            Ok::<_, ToolError>(text)
        }
    })?;
    Ok(tool.with_spec(|spec| spec.effect(EffectClass::Idempotent).approval(Approval::Always)))
}

fn put(workspace: &Workspace, arguments: &Arguments, stop: &CancellationToken) -> Result<String> {
    let content = arguments.content.as_bytes();
    if content.len() > WRITE_BYTES_MAX {
        return Err(Error::Argument(format!(
            "the content is {} bytes long, at most {WRITE_BYTES_MAX} are written at once",
            content.len()
        )));
    }
    let path = InnerPath::parse(&arguments.path)?;
    if arguments.path.ends_with('/') {
        return Err(Error::Argument(format!("`{path}/` names a directory, not a file")));
    }
    let _held = workspace.changing();
    workspace.replace(&path, Replacement { content, seen: None, marks: None }, stop)?;
    Ok(format!("Wrote {path} ({} bytes)", content.len()))
}

#[cfg(test)]
mod tests;
