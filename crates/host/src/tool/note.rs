//! `save_note`: writes a text file, after a person agreed.
//!
//! Invariant: a note is a new file directly inside the notes directory; a name can neither leave it nor overwrite anything.
//! Saving the same note again finds it there, so a call that a crash cut off can be repeated.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use provost_tool::{Approval, EffectClass, FnTool, SpecError, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;

/// Characters of a note's name.
const NAME_CHARS_MAX: usize = 64;

#[derive(Deserialize, JsonSchema)]
struct Arguments {
    /// A short name of letters, digits, `-` and `_`, without an ending.
    name: String,
    /// What the note says.
    text: String,
}

/// The tool; notes go into `dir`, which is made when the first one is saved.
pub(crate) fn tool(dir: PathBuf) -> Result<FnTool, SpecError> {
    let describe = "Saves a note as a text file. A person is asked first.";
    let tool = tool_fn("save_note", describe, move |_cx, arguments: Arguments| {
        let dir = dir.clone();
        async move {
            let work = move || save(&dir, &arguments.name, &arguments.text);
            tokio::task::spawn_blocking(work).await?
        }
    })?;
    Ok(tool.with_spec(|spec| spec.approval(Approval::Always).effect(EffectClass::Idempotent)))
}

fn save(dir: &Path, name: &str, text: &str) -> Result<String, ToolError> {
    let legal = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    if name.is_empty() || name.chars().count() > NAME_CHARS_MAX || !name.chars().all(legal) {
        return Err(ToolError::Retry(format!(
            "`{name}` cannot name a note: use 1 to {NAME_CHARS_MAX} letters, digits, `-` or `_`"
        )));
    }
    let failed = |path: &Path, error: &io::Error| {
        ToolError::failed(format!("{} cannot be written: {error}", shown(path)))
    };
    std::fs::create_dir_all(dir).map_err(|error| failed(dir, &error))?;
    let path = dir.join(format!("{name}.txt"));
    let mut file = match std::fs::File::create_new(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if std::fs::read_to_string(&path).is_ok_and(|found| found == text) {
                return Ok(format!("saved {}", shown(&path)));
            }
            return Err(ToolError::Retry(format!(
                "there is already a note `{name}`: choose another name"
            )));
        }
        Err(error) => return Err(failed(&path, &error)),
    };
    file.write_all(text.as_bytes()).map_err(|error| failed(&path, &error))?;
    Ok(format!("saved {}", shown(&path)))
}

/// A path as a person would write it here: without the directory that they are in.
fn shown(path: &Path) -> String {
    let here = std::env::current_dir().ok();
    let short = here.and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    short.as_deref().unwrap_or(path).display().to_string()
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
        assert!(again.to_string().contains("already a note"), "{again}");
        let text = std::fs::read_to_string(notes.join("milk.txt")).unwrap();
        assert_eq!(text, "buy milk");
        // The same note once more is the same note.
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
        assert!(matches!(spec.approval, Approval::Always));
    }
}
