//! The `write` tool: writes a complete file.

use provost_tool::{EffectClass, FnTool, RequiresApproval, ToolError, ToolSpecError, tool_fn};
use provost_workspace::{Error, Result};
use provost_workspace::{Replacement, WorkspacePath, WorkspaceRoot};
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::CancellationToken;

use crate::blocking;
use crate::limits::WRITE_BYTES_MAX;

const DESCRIPTION: &str = "Writes a complete file of the workspace. Creates the file and its parent directories, or \
     replaces its content. To change a part of a file, use edit.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct WriteArguments {
    /// Path of the file, relative to the workspace.
    path: String,
    /// The complete content of the file.
    content: String,
}

/// Creates the `write` tool. Writing the same content again has no further effect. Each call requires approval.
pub fn write(workspace: &WorkspaceRoot) -> std::result::Result<FnTool, ToolSpecError> {
    let workspace = workspace.clone();
    let tool = tool_fn("write", DESCRIPTION, move |_cx, arguments: WriteArguments| {
        let workspace = workspace.clone();
        async move {
            let text =
                blocking::run(move |cancel| write_file(&workspace, &arguments, cancel)).await?;
            Ok::<_, ToolError>(text)
        }
    })?;
    Ok(tool
        .with_spec(|spec| spec.effect(EffectClass::Idempotent).approval(RequiresApproval::Always)))
}

/// Writes a file and creates its directories. Returns an error if the content is too large.
fn write_file(
    workspace: &WorkspaceRoot,
    arguments: &WriteArguments,
    cancel: &CancellationToken,
) -> Result<String> {
    let content = arguments.content.as_bytes();
    if content.len() > WRITE_BYTES_MAX {
        return Err(Error::Argument(format!(
            "the content has {} bytes; write accepts at most {WRITE_BYTES_MAX} bytes",
            content.len()
        )));
    }
    let path = WorkspacePath::parse(&arguments.path)?;
    if arguments.path.ends_with('/') {
        return Err(Error::Argument(format!("`{path}/` names a directory, not a file")));
    }
    let _lock = workspace.lock_changes();
    workspace.replace(&path, Replacement { content, expected: None, markers: None }, cancel)?;
    Ok(format!("Wrote {path} ({} bytes)", content.len()))
}

#[cfg(test)]
mod tests;
