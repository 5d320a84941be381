//! Copies a database page by page while other connections write.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};

use crate::StoreError;
use crate::sqlite::{self, Sqlite};

/// Pages between two progress reports.
const COPY_PAGES: i32 = 256;

/// Progress of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgress {
    /// Pages copied so far.
    pub pages: u64,
    /// Total number of pages.
    pub pages_total: u64,
}

/// Copies the current content of `source` to the new file `to`, a single file without a write-ahead log.
///
/// The source is read in one transaction, so writers neither wait nor restart the copy.
pub(super) fn copy(
    source: &mut Sqlite,
    to: &Path,
    progress: &mut dyn FnMut(CopyProgress),
) -> Result<(), StoreError> {
    source.begin_read()?;
    let copied = source
        .number("SELECT count(*) FROM sqlite_schema")
        .and_then(|_| copy_pages(source, to, progress));
    source.rollback()?;
    copied?;
    sync(to)
}

/// Copies the pages to a new file and reports the progress. Replaces an existing file.
fn copy_pages(
    source: &Sqlite,
    to: &Path,
    progress: &mut dyn FnMut(CopyProgress),
) -> Result<(), StoreError> {
    remove(to)?;
    sqlite::create_file(to)?;
    let mut target = sqlite::open_plain(to)?;
    target.batch("PRAGMA synchronous = OFF")?;
    let backup = Backup::new(source.connection(), target.connection_mut())
        .map_err(|error| source.fault(error))?;
    loop {
        let step = backup.step(COPY_PAGES).map_err(|error| source.fault(error))?;
        let at = backup.progress();
        let count = |pages: i32| u64::try_from(pages).unwrap_or(0);
        progress(CopyProgress {
            pages: count(at.pagecount - at.remaining),
            pages_total: count(at.pagecount),
        });
        match step {
            StepResult::Done => break,
            StepResult::More => {}
            _ => return Err(StoreError::Busy { detail: format!("copying to {}", to.display()) }),
        }
    }
    drop(backup);
    target.text("PRAGMA journal_mode = DELETE").map(drop)
}

/// Waits until the file is on disk.
pub(super) fn sync(path: &Path) -> Result<(), StoreError> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|error| StoreError::file(path, &error))
}

/// Renames a finished file and waits until the new name is on disk.
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    fs::rename(from, to).map_err(|error| StoreError::file(to, &error))?;
    let dir = to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync(dir)
}

/// Returns the paths of the database file, its write-ahead log and its shared-memory file.
pub(super) fn database_files(path: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|suffix| with_suffix(path, suffix))
}

/// Appends `suffix` to the file name.
pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Deletes an unused database file with its companion files. Ignores missing files.
pub(super) fn remove(path: &Path) -> Result<(), StoreError> {
    for file in database_files(path) {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::file(&file, &error));
            }
            _ => {}
        }
    }
    Ok(())
}
