//! Room for new artifacts: what is too old goes, and the oldest of what is too much.

use std::fs::{self, DirEntry};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// How long an artifact is kept unless it is said otherwise. An agent that is resumed later does not find it any more.
const AGE_MAX: Duration = Duration::from_secs(7 * 24 * 3600);
/// Bytes of all artifacts of a directory unless it is said otherwise.
const BYTES_MAX: u64 = 8 * 1024 * 1024 * 1024;
/// Artifacts of a directory: all of them are looked at whenever one is added.
const FILES_MAX: usize = 4096;
/// How long a file that nobody finished is left alone: whoever writes it may only be slow.
const UNFINISHED_AGE_MAX: Duration = Duration::from_secs(24 * 3600);

/// What a directory may hold.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bounds {
    pub(super) age_max: Duration,
    pub(super) bytes_max: u64,
}

impl Default for Bounds {
    fn default() -> Self {
        Self { age_max: AGE_MAX, bytes_max: BYTES_MAX }
    }
}

/// A file of ours.
struct Kept {
    path: PathBuf,
    bytes: u64,
    modified: SystemTime,
    is_whole: bool,
}

/// Removes what is too old or too much. A file that cannot be removed is told and left: it holds up no new one.
pub(super) fn sweep(dir: &Path, bounds: Bounds) {
    // There may be no directory yet.
    let Ok(entries) = fs::read_dir(dir) else { return };
    let mut files: Vec<Kept> = entries.filter_map(|entry| kept(&entry.ok()?)).collect();
    files.sort_by_key(|file| file.modified);
    let now = SystemTime::now();
    let mut count = files.iter().filter(|file| file.is_whole).count();
    let mut bytes: u64 = files.iter().filter(|file| file.is_whole).map(|file| file.bytes).sum();
    for file in files {
        let age = now.duration_since(file.modified).unwrap_or_default();
        if !file.is_whole {
            if age > UNFINISHED_AGE_MAX {
                remove(&file.path);
            }
            continue;
        }
        // The one that is about to be added needs a place too.
        if age > bounds.age_max || bytes > bounds.bytes_max || count >= FILES_MAX {
            remove(&file.path);
            bytes -= file.bytes;
            count -= 1;
        }
    }
}

/// The file, if it is one that a spill has made: a name that ends with `.txt`, or one that begins with a dot and ends with two
/// numbers. What else is in the directory is somebody else's.
fn kept(entry: &DirEntry) -> Option<Kept> {
    let name = entry.file_name().into_string().ok()?;
    let is_whole = !name.starts_with('.') && name.ends_with(".txt");
    let mut ends = name.rsplit('.').map(|part| part.parse::<u64>().is_ok());
    let is_half = name.starts_with('.') && ends.next() == Some(true) && ends.next() == Some(true);
    // A link is not followed.
    let about = entry.metadata().ok().filter(|about| about.is_file() && (is_whole || is_half))?;
    let modified = about.modified().ok()?;
    Some(Kept { path: entry.path(), bytes: about.len(), modified, is_whole })
}

fn remove(path: &Path) {
    if let Err(error) = fs::remove_file(path) {
        tracing::warn!(%error, "an old artifact could not be removed");
    }
}
