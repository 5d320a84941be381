//! The database of a data directory: opens, checks, copies and measures it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_core::{Env, ErrorKind};
use provost_secret::SecretStore;
pub(crate) use provost_store::{CopyProgress, DatabaseSize};
use provost_store::{RestoreOptions, Store, StoreError, StoreOptions};

use crate::data;
use crate::error::CliError;

/// Damage of the database that a check found.
pub(crate) struct Damage {
    /// Kind of damage.
    pub(crate) code: &'static str,
    /// Location and description of the damage.
    pub(crate) detail: String,
}

/// A finished backup.
pub(crate) struct Backup {
    /// Path of the backup.
    pub(crate) path: PathBuf,
    /// Size of the backup in bytes.
    pub(crate) bytes: u64,
}

/// A restored database.
pub(crate) struct Restored {
    /// Number of times that the database was restored.
    pub(crate) generation: u64,
    /// Schema version of the backup.
    pub(crate) schema_version: u32,
}

/// Returns the path of the database in a data directory.
pub(crate) fn path(dir: &Path) -> PathBuf {
    StoreOptions::in_dir(dir).path
}

/// Opens the database in a data directory. Creates the directory and the database if they do not exist.
pub(super) fn open(dir: &Path) -> Result<Store, CliError> {
    data::create(dir)?;
    Store::open(StoreOptions::in_dir(dir)).map_err(|error| problem(&error))
}

/// Opens the encrypted secrets of a data directory. Creates the directory and the database if they do not exist.
pub(crate) fn open_sealed(dir: &Path) -> Result<Arc<dyn SecretStore>, CliError> {
    Ok(Arc::new(open(dir)?))
}

/// Checks an existing database for damage.
pub(crate) async fn check(dir: &Path) -> Result<Vec<Damage>, CliError> {
    let store = match open_existing(dir)? {
        Ok(store) => store,
        // A database that is too damaged to open is a finding and not an error.
        Err(error @ StoreError::Corrupt { .. }) => {
            return Ok(vec![Damage { code: "damaged", detail: error.to_string() }]);
        }
        Err(error) => return Err(problem(&error)),
    };
    let report = store.check().await.map_err(|error| problem(&error))?;
    let found = report.failures.into_iter();
    Ok(found.map(|found| Damage { code: found.code, detail: found.detail }).collect())
}

/// Copies an existing database to a new file.
pub(crate) async fn backup(
    dir: &Path,
    file: &Path,
    progress: impl FnMut(CopyProgress) + Send + 'static,
) -> Result<Backup, CliError> {
    let store = open_existing(dir)?.map_err(|error| problem(&error))?;
    let report = store.backup(file, progress).await.map_err(|error| problem(&error))?;
    Ok(Backup { path: report.path, bytes: report.bytes })
}

/// Restores the database of a data directory from a backup.
pub(crate) fn restore(dir: &Path, file: &Path, replace: bool) -> Result<Restored, CliError> {
    data::create(dir)?;
    let to = path(dir);
    let options =
        RestoreOptions { from: file.to_owned(), to: to.clone(), replace, env: Env::system() };
    let report = provost_store::restore(&options).map_err(|error| match error {
        StoreError::Exists { .. } => {
            let message = format!("a database already exists at {}", to.display());
            CliError::new(ErrorKind::Conflict, message)
                .hint("back it up with `provost db backup FILE`, then use --replace")
        }
        error => problem(&error),
    })?;
    Ok(Restored { generation: report.generation, schema_version: report.schema_version })
}

/// Returns the size of an existing database and its tables.
pub(crate) async fn size(dir: &Path) -> Result<DatabaseSize, CliError> {
    let store = open_existing(dir)?.map_err(|error| problem(&error))?;
    store.size().await.map_err(|error| problem(&error))
}

/// Opens an existing database. Returns an error if there is none.
fn open_existing(dir: &Path) -> Result<Result<Store, StoreError>, CliError> {
    let file = path(dir);
    if !file.exists() {
        let message = format!("there is no database at {}", file.display());
        return Err(CliError::new(ErrorKind::NotFound, message).hint(
            "select its directory with --data-dir DIR or PROVOST_DATA; `provost chat` creates a database",
        ));
    }
    Ok(Store::open(StoreOptions::in_dir(dir)))
}

/// Converts a store error.
fn problem(error: &StoreError) -> CliError {
    CliError::new(error.kind(), error.to_string())
}
