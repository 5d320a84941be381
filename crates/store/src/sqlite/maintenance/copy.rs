//! Copying a database page by page while others go on writing.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rusqlite::backup::{Backup, StepResult};

use crate::StoreError;
use crate::sqlite::{self, Sqlite};

/// Pages copied between two reports of progress.
const COPY_PAGES: i32 = 256;

/// How far a copy has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyProgress {
    /// Pages copied so far.
    pub pages: u64,
    /// Pages in all.
    pub pages_total: u64,
}

/// Copies what `source` holds now to the new file `to`, as a single file without a log beside it.
///
/// The source is read in one transaction, so writers neither wait nor make the copy start again.
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

/// Makes sure that the disk has the file.
pub(super) fn sync(path: &Path) -> Result<(), StoreError> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|error| StoreError::file(path, &error))
}

/// Gives a finished file its name, and makes sure that the disk has it under that name.
pub(super) fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    fs::rename(from, to).map_err(|error| StoreError::file(to, &error))?;
    let dir = to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync(dir)
}

/// The database file and what SQLite may have beside it.
pub(super) fn family(path: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|suffix| beside(path, suffix))
}

/// The file of the same name with `suffix` at its end.
pub(super) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

/// Removes a database that nobody uses, if it is there.
pub(super) fn remove(path: &Path) -> Result<(), StoreError> {
    for file in family(path) {
        match fs::remove_file(&file) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::file(&file, &error));
            }
            _ => {}
        }
    }
    Ok(())
}
