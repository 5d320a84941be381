//! `edit`: one exact piece of a text by another.
//!
//! An edit is not harmless when it is repeated: where the new text contains the old one, it would be applied twice. So its class
//! is provable: after a crash the file itself tells whether the edit has happened, see [`verify`].

mod verify;

use std::io::Read;

use futures::FutureExt;
use futures::future::BoxFuture;
use provost_core::recovery::EffectKey;
use provost_tool::{
    Approval, EffectClass, Permit, Probe, SpecError, Tool, ToolCx, ToolError, ToolFuture,
    ToolOutput, ToolSpec,
};
use provost_workspace::{Error, Result, check_stopped};
use provost_workspace::{InnerPath, Marks, Opened, Replacement, Workspace};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;

use self::verify::{Past, matches, past};
use crate::blocking;
use crate::files::read::is_binary;
use crate::limits::EDIT_FILE_BYTES_MAX;

/// Matches that are counted; nobody needs to know more exactly.
const COUNT_MAX: usize = 1_000;

const DESCRIPTION: &str = "Replaces one piece of a text file of the workspace by another. old_string must occur \
     exactly once: copy it from the file with enough around it, with all spaces and line ends.";

#[derive(Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct Arguments {
    /// Path of the file, relative to the workspace.
    path: String,
    /// The piece to replace, exactly as it is in the file.
    old_string: String,
    /// What comes in its place; nothing deletes it.
    new_string: String,
}

/// The tool `edit`, made by [`edit()`].
#[derive(Clone)]
pub struct EditTool {
    spec: ToolSpec,
    workspace: Workspace,
}

/// The tool `edit`. A person is asked first.
pub fn edit(workspace: &Workspace) -> std::result::Result<EditTool, SpecError> {
    let spec = ToolSpec::typed::<Arguments>("edit", DESCRIPTION)?
        .effect(EffectClass::Provable)
        .approval(Approval::Always);
    Ok(EditTool { spec, workspace: workspace.clone() })
}

impl EditTool {
    /// Changes how the tool may be called.
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

    fn call(&self, permit: Permit, cx: ToolCx) -> ToolFuture {
        let workspace = self.workspace.clone();
        let key = cx.effect_key().clone();
        async move {
            let arguments: Arguments = permit.parse()?;
            let work = move |stop: &CancellationToken| apply(&workspace, &arguments, &key, stop);
            Ok::<_, ToolError>(ToolOutput::text(blocking::run(work).await?))
        }
        .boxed()
    }

    fn probe(&self, key: EffectKey, arguments: Value) -> BoxFuture<'static, Probe> {
        let workspace = self.workspace.clone();
        async move {
            let Ok(arguments) = serde_json::from_value::<Arguments>(arguments) else {
                return Probe::Unsure;
            };
            let work = move |stop: &CancellationToken| probe(&workspace, &arguments, &key, stop);
            blocking::run(work).await.unwrap_or(Probe::Unsure)
        }
        .boxed()
    }
}

fn apply(
    workspace: &Workspace,
    arguments: &Arguments,
    key: &EffectKey,
    stop: &CancellationToken,
) -> Result<String> {
    let (old, new) = (arguments.old_string.as_bytes(), arguments.new_string.as_bytes());
    if old.is_empty() {
        return Err(Error::Argument("old_string is empty: say what to replace".to_owned()));
    }
    if old == new {
        return Err(Error::Argument("old_string and new_string are the same".to_owned()));
    }
    let path = InnerPath::parse(&arguments.path)?;
    let _held = workspace.changing();
    let (opened, content) = content(workspace, &path)?;
    check_stopped(stop)?;
    let places = matches(&content, old, COUNT_MAX);
    let place = match places[..] {
        [place] => place,
        [] => {
            return Err(Error::Content(format!(
                "old_string was not found in `{path}`: it must match exactly, with all spaces and line ends"
            )));
        }
        _ => {
            let more = if places.len() == COUNT_MAX { "at least " } else { "" };
            return Err(Error::Content(format!(
                "old_string occurs {more}{} times in `{path}`, it must occur exactly once: take in more of what is \
                 around it",
                places.len()
            )));
        }
    };
    let mut changed = Vec::with_capacity(content.len() - old.len() + new.len());
    changed.extend_from_slice(&content[..place]);
    changed.extend_from_slice(new);
    changed.extend_from_slice(&content[place + old.len()..]);
    let marks = Marks::read(&opened.file).unwrap_or_default().with(key);
    let replacement =
        Replacement { content: &changed, seen: Some(&opened.stat), marks: Some(marks) };
    workspace.replace(&path, replacement, stop)?;
    Ok(answer(&path, changed.len()))
}

fn answer(path: &InnerPath, bytes: usize) -> String {
    format!("Edited {path} ({bytes} bytes)")
}

fn probe(
    workspace: &Workspace,
    arguments: &Arguments,
    key: &EffectKey,
    stop: &CancellationToken,
) -> Result<Probe> {
    let path = InnerPath::parse(&arguments.path)?;
    let (opened, content) = content(workspace, &path)?;
    let done = || Probe::Done(ToolOutput::text(answer(&path, content.len())));
    let marks = Marks::read(&opened.file);
    if marks.as_ref().is_some_and(|marks| marks.has(key)) {
        return Ok(done());
    }
    check_stopped(stop)?;
    let (old, new) = (arguments.old_string.as_bytes(), arguments.new_string.as_bytes());
    Ok(match past(&content, old, new) {
        Past::Done => done(),
        Past::NotDone => Probe::NotDone,
        // A mark that could be there and is not is as good as certain then.
        Past::Unlikely if marks.is_some() => Probe::NotDone,
        Past::Unlikely | Past::Unsure => Probe::Unsure,
    })
}

/// A text file as a whole.
fn content(workspace: &Workspace, path: &InnerPath) -> Result<(Opened, Vec<u8>)> {
    let mut opened = workspace.open_file(path)?;
    let too_large = |size: u64| {
        Error::Content(format!(
            "`{path}` has {size} bytes, at most {EDIT_FILE_BYTES_MAX} can be edited"
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
