//! `save_note`: writes a text file after an approval.
//!
//! Invariant: a note is a new file in the notes directory. A name can neither leave the directory nor overwrite a file.
//! Saving the same note again succeeds, so a call that a crash interrupted can be repeated.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use provost_tool::{EffectClass, FnTool, RequiresApproval, ToolError, ToolSpecError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

/// Maximum number of characters in the name of a note.
const NAME_CHARS_MAX: usize = 64;

#[derive(Deserialize, JsonSchema)]
struct NoteArguments {
    /// Short name of letters, digits, `-` and `_`, without an extension.
    name: String,
    /// Text of the note.
    text: String,
}

/// Creates the tool. The directory is created with the first note.
pub(crate) fn tool(dir: PathBuf) -> Result<FnTool, ToolSpecError> {
    let describe = "Saves a note as a text file. Every call requires approval.";
    let tool = tool_fn("save_note", describe, move |_cx, arguments: NoteArguments| {
        let dir = dir.clone();
        async move {
            let work = move || save(&dir, &arguments.name, &arguments.text);
            tokio::task::spawn_blocking(work).await?
        }
    })?;
    Ok(tool
        .with_spec(|spec| spec.approval(RequiresApproval::Always).effect(EffectClass::Idempotent)))
}

/// Writes a note to a file and returns the message for the model. Returns an error for the model if the name is
/// invalid.
fn save(dir: &Path, name: &str, text: &str) -> Result<String, ToolError> {
    let is_legal = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX || !name.chars().all(is_legal) {
        return Err(ToolError::Retry(format!(
            "`{name}` is not a valid name: use 1 to {NAME_CHARS_MAX} letters, digits, `-` or `_`"
        )));
    }
    let failed = |path: &Path, error: &io::Error| {
        ToolError::failed(format!("cannot write {}: {error}", display(path)))
    };
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
    let path = dir.join(format!("{name}.txt"));
    let mut file = match std::fs::File::create_new(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if std::fs::read_to_string(&path).is_ok_and(|found| found == text) {
                return Ok(format!("saved {}", display(&path)));
            }
            return Err(ToolError::Retry(format!(
                "a note `{name}` already exists: use another name"
            )));
        }
        Err(error) => return Err(failed(&path, &error)),
    };
    file.write_all(text.as_bytes()).map_err(|error| failed(&path, &error))?;
    Ok(format!("saved {}", display(&path)))
}

/// Formats a path relative to the working directory.
fn display(path: &Path) -> String {
    let working_dir = std::env::current_dir().ok();
    let relative = working_dir.and_then(|dir| path.strip_prefix(dir).ok().map(Path::to_owned));
    relative.as_deref().unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_written_once_and_never_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let notes = dir.path().join("notes");
        assert!(save(&notes, "milk", "buy milk").unwrap().ends_with("milk.txt"));
        let again = save(&notes, "milk", "other").unwrap_err();
        assert!(again.to_string().contains("already exists"), "{again}");
        let text = std::fs::read_to_string(notes.join("milk.txt")).unwrap();
        assert_eq!(text, "buy milk");
        // Saving the same note again succeeds.
        assert!(save(&notes, "milk", "buy milk").unwrap().ends_with("milk.txt"));
    }

    #[test]
    fn a_name_cannot_leave_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["", "..", "../x", "a/b", "a\\b", "a.b", "a\0b", ".hidden"] {
            let error = save(dir.path(), name, "x").unwrap_err();
            assert!(matches!(error, ToolError::Retry(_)), "{name}: {error}");
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_directory_that_cannot_be_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, "").unwrap();
        let notes = file.join("notes");
        let error = save(&notes, "milk", "x").unwrap_err().to_string();
        assert!(error.contains(&notes.display().to_string()), "{error}");
        let error = save(&file, "milk", "x").unwrap_err().to_string();
        assert!(error.contains(&file.display().to_string()), "{error}");
    }

    #[test]
    fn it_asks_always() {
        let tool = tool(PathBuf::from("notes")).unwrap();
        let spec = provost_tool::Tool::spec(&tool);
        assert!(matches!(spec.approval, RequiresApproval::Always));
    }
}
