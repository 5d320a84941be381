//! Reads files of manifests: YAML with several documents, or JSON.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use provost_core::resource::{Resource, ResourceError};
use serde::Deserialize as _;
use serde_json::Value;

use crate::locate;
use crate::{DeclareError, Place};

/// Bytes of one file.
pub const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Files of one directory, all below it included.
pub const FILES_MAX: usize = 2000;
/// How deep directories may lie in each other.
pub const DEPTH_MAX: usize = 16;

/// How names of files end that are read.
const ENDINGS: [&str; 3] = ["yaml", "yml", "json"];

/// Everything below a path, in the order of names; or the file that it is.
pub(crate) fn read(path: &Path) -> Result<Vec<(Place, Resource)>, DeclareError> {
    let failed = |error: &std::io::Error| refused(path, error.to_string());
    let facts = fs::metadata(path).map_err(|error| failed(&error))?;
    let mut files = Vec::new();
    if facts.is_dir() {
        find(path, DEPTH_MAX, &mut files)?;
    } else {
        files.push(path.to_owned());
    }
    let mut found = Vec::new();
    for file in files {
        let text = text(&file)?;
        found.extend(parse(&text, Some(&file))?);
    }
    Ok(found)
}

fn refused(file: &Path, problem: impl Into<String>) -> DeclareError {
    DeclareError::File { file: file.to_owned(), problem: problem.into() }
}

fn find(dir: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), DeclareError> {
    if depth == 0 {
        return Err(refused(dir, format!("directories lie more than {DEPTH_MAX} deep")));
    }
    let failed = |error: std::io::Error| refused(dir, error.to_string());
    let mut entries: Vec<PathBuf> = fs::read_dir(dir)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    entries.sort();
    for path in entries {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // Editors and version control keep their own things beside.
        if name.starts_with('.') {
            continue;
        }
        let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
        if path.is_dir() {
            find(&path, depth - 1, files)?;
        } else if ENDINGS.contains(&ending) {
            if files.len() == FILES_MAX {
                return Err(refused(dir, format!("there are more than {FILES_MAX} files")));
            }
            files.push(path);
        }
    }
    Ok(())
}

fn text(path: &Path) -> Result<String, DeclareError> {
    let failed = |error: std::io::Error| refused(path, error.to_string());
    let file = fs::File::open(path).map_err(failed)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(refused(path, format!("it has more than {FILE_BYTES_MAX} bytes: split it")));
    }
    Ok(text)
}

/// Every resource of a text.
pub(crate) fn parse(
    text: &str,
    file: Option<&Path>,
) -> Result<Vec<(Place, Resource)>, DeclareError> {
    let place = |line| Place { file: file.map(Path::to_owned), line };
    let starts = locate::documents(text);
    let mut found = Vec::new();
    for (number, document) in serde_yaml_ng::Deserializer::from_str(text).enumerate() {
        let start = starts.get(number).copied().unwrap_or(1);
        // Through YAML's own values: they refuse a key that is there twice.
        let document = serde_yaml_ng::Value::deserialize(document)
            .and_then(|value| serde_json::to_value(value).map_err(serde::de::Error::custom))
            .map_err(|error| {
                let line = error.location().map_or(start, |location| location.line());
                DeclareError::Syntax { place: place(line), problem: error.to_string() }
            })?;
        for manifest in manifests(document) {
            let resource = Resource::from_manifest(manifest).map_err(|error: ResourceError| {
                let line = locate::of_field(text, start, &error.path);
                DeclareError::Resource { place: place(line), error }
            })?;
            found.push((place(start), resource));
        }
    }
    Ok(found)
}

/// A document is a manifest, a list of them, or nothing at all.
fn manifests(document: Value) -> Vec<Value> {
    match document {
        Value::Null => Vec::new(),
        Value::Array(items) => items,
        one => vec![one],
    }
}
