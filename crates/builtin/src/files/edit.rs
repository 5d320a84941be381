//! The `edit` tool: replaces one exact text of a file.
//!
//! Repeating an edit can be harmful: if the new text contains the old one, the edit would be applied twice. Its effect
//! class is therefore provable: after a crash, the file itself shows whether the edit was applied, see [`verify`].

mod verify;

use std::io::Read;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::recovery::EffectKey;
use provost_tool::{
    EffectClass, Permit, ProbeOutcome, RequiresApproval, Tool, ToolContext, ToolError, ToolFuture,
    ToolOutput, ToolSpec, ToolSpecError,
};
use provost_workspace::{EditMarkers, OpenedFile, Replacement, WorkspacePath, WorkspaceRoot};
use provost_workspace::{Error, Result, check_cancelled};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::verify::{EditStatus, edit_status, find_positions};
use crate::blocking;
use crate::files::read::is_binary;
use crate::limits::EDIT_FILE_BYTES_MAX;

/// Maximum number of counted matches.
const COUNT_MAX: usize = 1_000;

const DESCRIPTION: &str = "Replaces one piece of text in a file of the workspace. old_string must occur \
     exactly once: copy it from the file with enough context, including all spaces and line breaks.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct EditArguments {
    /// Path of the file, relative to the workspace.
    path: String,
    /// The text to replace, exactly as it is in the file.
    old_string: String,
    /// The replacement. An empty text deletes the old one.
    new_string: String,
}

/// The `edit` tool: replaces text in a file, and can tell after a crash whether an edit was done. Created by
/// [`edit()`].
#[derive(Clone)]
pub struct EditTool {
    spec: ToolSpec,
    workspace: WorkspaceRoot,
}

/// Creates the `edit` tool. Each call requires approval.
pub fn edit(workspace: &WorkspaceRoot) -> std::result::Result<EditTool, ToolSpecError> {
    let spec = ToolSpec::typed::<EditArguments>("edit", DESCRIPTION)?
        .effect(EffectClass::Provable)
        .approval(RequiresApproval::Always);
    Ok(EditTool { spec, workspace: workspace.clone() })
}

impl EditTool {
    /// Changes the specification of the tool.
    #[must_use]
    pub fn with_spec(mut self, change: impl FnOnce(ToolSpec) -> ToolSpec) -> Self {
        self.spec = change(self.spec);
        self
    }
}

impl Tool for EditTool {
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    fn call(&self, permit: Permit, cx: ToolContext) -> ToolFuture {
        let workspace = self.workspace.clone();
        let key = cx.effect_key().clone();
        async move {
            let arguments: EditArguments = permit.parse()?;
            let work =
                move |cancel: &CancellationToken| apply_edit(&workspace, &arguments, &key, cancel);
            Ok::<_, ToolError>(ToolOutput::text(blocking::run(work).await?))
        }
        .boxed()
    }

    fn probe(&self, key: EffectKey, arguments: Value) -> BoxFuture<'static, ProbeOutcome> {
        let workspace = self.workspace.clone();
        async move {
            let Ok(arguments) = serde_json::from_value::<EditArguments>(arguments) else {
                return ProbeOutcome::Unknown;
            };
            let work =
                move |cancel: &CancellationToken| probe(&workspace, &arguments, &key, cancel);
            blocking::run(work).await.unwrap_or(ProbeOutcome::Unknown)
        }
        .boxed()
    }
}

/// Replaces the text and marks the edit in the file's attributes. Returns an error if the old text does not occur
/// exactly once.
fn apply_edit(
    workspace: &WorkspaceRoot,
    arguments: &EditArguments,
    key: &EffectKey,
    cancel: &CancellationToken,
) -> Result<String> {
    let (old, new) = (arguments.old_string.as_bytes(), arguments.new_string.as_bytes());
    if old.is_empty() {
        return Err(Error::Argument(
            "old_string is empty: it must contain the text to replace".to_owned(),
        ));
    }
    if old == new {
        return Err(Error::Argument("old_string and new_string are the same".to_owned()));
    }
    let path = WorkspacePath::parse(&arguments.path)?;
    let _lock = workspace.lock_changes();
    let (opened, content) = read_content(workspace, &path)?;
    check_cancelled(cancel)?;
    let positions = find_positions(&content, old, COUNT_MAX);
    let position = match positions[..] {
        [position] => position,
        [] => {
            return Err(Error::Content(format!(
                "old_string was not found in `{path}`: it must match exactly, including all spaces and line breaks"
            )));
        }
        _ => {
            let more = if positions.len() == COUNT_MAX { "at least " } else { "" };
            return Err(Error::Content(format!(
                "old_string occurs {more}{} times in `{path}`, but it must occur exactly once: include more \
                 context",
                positions.len()
            )));
        }
    };
    let mut changed = Vec::with_capacity(content.len() - old.len() + new.len());
    changed.extend_from_slice(&content[..position]);
    changed.extend_from_slice(new);
    changed.extend_from_slice(&content[position + old.len()..]);
    let markers = EditMarkers::read(&opened.file).unwrap_or_default().with(key);
    let replacement =
        Replacement { content: &changed, expected: Some(&opened.stat), markers: Some(markers) };
    workspace.replace(&path, replacement, cancel)?;
    Ok(result_text(&path, changed.len()))
}

/// Returns the text of a successful edit.
fn result_text(path: &WorkspacePath, bytes: usize) -> String {
    format!("Edited {path} ({bytes} bytes)")
}

/// Returns whether an edit was done: by its mark, otherwise by the content of the file.
fn probe(
    workspace: &WorkspaceRoot,
    arguments: &EditArguments,
    key: &EffectKey,
    cancel: &CancellationToken,
) -> Result<ProbeOutcome> {
    let path = WorkspacePath::parse(&arguments.path)?;
    let (opened, content) = read_content(workspace, &path)?;
    let done = || ProbeOutcome::Completed(ToolOutput::text(result_text(&path, content.len())));
    let markers = EditMarkers::read(&opened.file);
    if markers.as_ref().is_some_and(|markers| markers.contains(key)) {
        return Ok(done());
    }
    check_cancelled(cancel)?;
    let (old, new) = (arguments.old_string.as_bytes(), arguments.new_string.as_bytes());
    Ok(match edit_status(&content, old, new) {
        EditStatus::Applied => done(),
        EditStatus::NotApplied => ProbeOutcome::NotExecuted,
        // The file system supports markers, but the marker of this edit is missing. That is as good as proof.
        EditStatus::ProbablyNotApplied if markers.is_some() => ProbeOutcome::NotExecuted,
        EditStatus::ProbablyNotApplied | EditStatus::Unknown => ProbeOutcome::Unknown,
    })
}

/// Reads a text file completely. Returns an error if it is too large or binary.
fn read_content(workspace: &WorkspaceRoot, path: &WorkspacePath) -> Result<(OpenedFile, Vec<u8>)> {
    let mut opened = workspace.open_file(path)?;
    let too_large = |size: u64| {
        Error::Content(format!(
            "`{path}` has {size} bytes; edit supports at most {EDIT_FILE_BYTES_MAX} bytes"
        ))
    };
    let size = u64::try_from(opened.stat.st_size).unwrap_or(0);
    if size > EDIT_FILE_BYTES_MAX {
        return Err(too_large(size));
    }
    let mut content = Vec::with_capacity(usize::try_from(size).unwrap_or(0));
    let mut bounded = (&mut opened.file).take(EDIT_FILE_BYTES_MAX + 1);
    bounded.read_to_end(&mut content).map_err(|error| Error::io(path, error))?;
    if content.len() as u64 > EDIT_FILE_BYTES_MAX {
        return Err(too_large(content.len() as u64));
    }
    if is_binary(&content) {
        return Err(Error::Content(format!("`{path}` is a binary file: only text can be edited")));
    }
    Ok((opened, content))
}

#[cfg(test)]
mod tests;
