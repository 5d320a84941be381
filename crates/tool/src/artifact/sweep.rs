//! Removes expired artifacts, and the oldest ones if the directory exceeds its limits.

use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// Default retention time of an artifact. An agent that resumes later no longer finds it.
const AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Default maximum size of all artifacts of a directory.
const BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;
/// Maximum number of artifacts of a directory. Every sweep reads all of them.
const FILES_MAX: usize = 4096;
/// Age after which a partial file is removed. A younger one may still be written.
const PARTIAL_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// Maximum age and total size of the artifacts in a directory.
#[derive(Debug, Clone, Copy)]
pub(super) struct RetentionLimits {
    pub(super) age_max: Duration,
    pub(super) bytes_max: u64,
}

impl Default for RetentionLimits {
    fn default() -> Self {
        Self { age_max: AGE_MAX, bytes_max: BYTES_MAX }
    }
}

/// An artifact file with its size and age.
struct StoredArtifact {
    path: PathBuf,
    bytes: u64,
    modified: SystemTime,
    is_complete: bool,
}

/// Removes artifacts that exceed the limits. A file that cannot be removed is logged and skipped.
pub(super) fn sweep(dir: &Path, limits: RetentionLimits) {
    // The directory may not exist yet.
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut files: Vec<StoredArtifact> =
        entries.filter_map(|entry| read_entry(&entry.ok()?)).collect();
    files.sort_by_key(|file| file.modified);
    let now = SystemTime::now();
    let mut count = files.iter().filter(|file| file.is_complete).count();
    let mut bytes: u64 = files.iter().filter(|file| file.is_complete).map(|file| file.bytes).sum();
    for file in files {
        let age = now.duration_since(file.modified).unwrap_or_default();
        if !file.is_complete {
            if age > PARTIAL_AGE_MAX {
                remove(&file.path);
            }
            continue;
        }
        // The new artifact needs a place too.
        if age > limits.age_max || bytes > limits.bytes_max || count >= FILES_MAX {
            remove(&file.path);
            bytes -= file.bytes;
            count -= 1;
        }
    }
}

/// Returns the entry if it is an artifact: its name ends with `.txt`, or it is a partial file whose name begins with a
/// dot and ends with two numbers. `None` for other files.
fn read_entry(entry: &DirEntry) -> Option<StoredArtifact> {
    let name = entry.file_name().into_string().ok()?;
    let is_complete = !name.starts_with('.') && name.ends_with(".txt");
    let mut ends = name.rsplit('.').map(|part| part.parse::<u64>().is_ok());
    let is_partial =
        name.starts_with('.') && ends.next() == Some(true) && ends.next() == Some(true);
    // Symbolic links are ignored.
    let metadata = entry
        .metadata()
        .ok()
        .filter(|metadata| metadata.is_file() && (is_complete || is_partial))?;
    let modified = metadata.modified().ok()?;
    Some(StoredArtifact { path: entry.path(), bytes: metadata.len(), modified, is_complete })
}

/// Removes a file. An error is logged.
fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(%error, "an old artifact could not be removed");
    }
}
