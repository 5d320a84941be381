//! Reading of manifest files: YAML with several documents, or JSON.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use provost_core::resource::{Resource, ResourceError};
use serde::Deserialize as _;
use serde_json::Value;

use crate::line_number;
use crate::{ManifestError, SourceLocation};

/// Maximum size of one file in bytes.
pub const FILE_BYTES_MAX: u64 = 4 * 1024 * 1024;
/// Maximum number of files below one directory.
pub const FILES_MAX: usize = 2000;
/// Maximum depth of nested directories.
pub const DEPTH_MAX: usize = 16;

/// Extensions of manifest files.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];

/// Reads a file, or all manifest files below a directory in the order of their names. Hidden files and directories are
/// skipped. Returns the first error.
pub(crate) fn read(path: &Path) -> Result<Vec<(SourceLocation, Resource)>, ManifestError> {
    let failed = |error: &std::io::Error| file_error(path, error.to_string());
    let metadata = fs::metadata(path).map_err(|error| failed(&error))?;
    let mut files = Vec::new();
    if metadata.is_dir() {
        collect_files(path, DEPTH_MAX, &mut files)?;
    } else {
        files.push(path.to_owned());
    }
    let mut resources = Vec::new();
    for file in files {
        let text = read_file(&file)?;
        resources.extend(parse(&text, Some(&file))?);
    }
    Ok(resources)
}

fn file_error(file: &Path, problem: impl Into<String>) -> ManifestError {
    ManifestError::File { file: file.to_owned(), problem: problem.into() }
}

/// Appends the manifest files below a directory to `files`, sorted by name within each directory. Returns an error if
/// there are too many files or levels.
fn collect_files(dir: &Path, depth: usize, files: &mut Vec<PathBuf>) -> Result<(), ManifestError> {
    if depth == 0 {
        return Err(file_error(
            dir,
            format!("directories are nested more than {DEPTH_MAX} levels deep"),
        ));
    }
    let failed = |error: std::io::Error| file_error(dir, error.to_string());
    let mut entries: Vec<PathBuf> = fs::read_dir(dir)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    entries.sort();
    for path in entries {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        // Hidden files belong to editors and version control.
        if name.starts_with('.') {
            continue;
        }
        let extension =
            path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if path.is_dir() {
            collect_files(&path, depth - 1, files)?;
        } else if EXTENSIONS.contains(&extension) {
            if files.len() == FILES_MAX {
                return Err(file_error(dir, format!("there are more than {FILES_MAX} files")));
            }
            files.push(path);
        }
    }
    Ok(())
}

/// Reads a file as UTF-8 text. Returns an error if it has more than [`FILE_BYTES_MAX`] bytes.
fn read_file(path: &Path) -> Result<String, ManifestError> {
    let failed = |error: std::io::Error| file_error(path, error.to_string());
    let file = fs::File::open(path).map_err(failed)?;
    let mut text = String::new();
    file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text).map_err(failed)?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err(file_error(
            path,
            format!("the file has more than {FILE_BYTES_MAX} bytes: split it"),
        ));
    }
    Ok(text)
}

/// Parses all resources of a text, each with the line where its document starts. Returns the first error.
pub(crate) fn parse(
    text: &str,
    file: Option<&Path>,
) -> Result<Vec<(SourceLocation, Resource)>, ManifestError> {
    let location = |line| SourceLocation { file: file.map(Path::to_owned), line };
    let starts = line_number::document_starts(text);
    let mut resources = Vec::new();
    for (number, document) in serde_yaml_ng::Deserializer::from_str(text).enumerate() {
        let start = starts.get(number).copied().unwrap_or(1);
        // Deserializing YAML values first rejects duplicate keys.
        let document = serde_yaml_ng::Value::deserialize(document)
            .and_then(|value| serde_json::to_value(value).map_err(serde::de::Error::custom))
            .map_err(|error| {
                let line = error.location().map_or(start, |location| location.line());
                ManifestError::Syntax { location: location(line), problem: error.to_string() }
            })?;
        for manifest in manifests(document) {
            let resource = Resource::from_manifest(manifest).map_err(|error: ResourceError| {
                let line = line_number::field_line(text, start, &error.path);
                ManifestError::Resource { location: location(line), error }
            })?;
            resources.push((location(start), resource));
        }
    }
    Ok(resources)
}

/// Returns the manifests of a document: the document itself, or the items if it is a list. Empty for an empty document.
fn manifests(document: Value) -> Vec<Value> {
    match document {
        Value::Null => Vec::new(),
        Value::Array(items) => items,
        one => vec![one],
    }
}
