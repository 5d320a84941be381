//! The database of a data directory: opens, checks, copies and measures it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_core::{Env, ErrorKind};
use provost_secret::SealedStore;
pub(crate) use provost_store::{CopyProgress, DatabaseSize};
use provost_store::{RestoreOptions, Store, StoreError, StoreOptions};

use crate::data;
use crate::problem::Problem;

/// A finding of a check.
pub(crate) struct Damage {
    /// Kind of damage.
    pub(crate) code: &'static str,
    /// Where it is.
    pub(crate) detail: String,
}

/// A finished backup.
pub(crate) struct Backup {
    /// The file.
    pub(crate) path: PathBuf,
    /// Size of the file.
    pub(crate) bytes: u64,
}

/// A restored database.
pub(crate) struct Restored {
    /// Number of times that the database was restored.
    pub(crate) generation: u64,
    /// Schema version of the backup.
    pub(crate) schema_version: u32,
}

/// Path of the database in a data directory.
pub(crate) fn path(dir: &Path) -> PathBuf {
    StoreOptions::in_dir(dir).path
}

/// Opens the database in a data directory; both are made if they are missing.
pub(super) fn open(dir: &Path) -> Result<Store, Problem> {
    data::make(dir)?;
    Store::open(StoreOptions::in_dir(dir)).map_err(|error| problem(&error))
}

/// Opens the sealed secrets in a data directory; both are made if they are missing.
pub(crate) fn open_sealed(dir: &Path) -> Result<Arc<dyn SealedStore>, Problem> {
    Ok(Arc::new(open(dir)?))
}

/// Looks for damage in a database that exists.
pub(crate) async fn check(dir: &Path) -> Result<Vec<Damage>, Problem> {
    let store = match open_existing(dir)? {
        Ok(store) => store,
        // What cannot even be opened is what was looked for.
        Err(error @ StoreError::Damaged { .. }) => {
            return Ok(vec![Damage { code: "damaged", detail: error.to_string() }]);
        }
        Err(error) => return Err(problem(&error)),
    };
    let report = store.check().await.map_err(|error| problem(&error))?;
    let found = report.problems.into_iter();
    Ok(found.map(|found| Damage { code: found.code, detail: found.detail }).collect())
}

/// Copies a database that exists to a new file.
pub(crate) async fn backup(
    dir: &Path,
    file: &Path,
    progress: impl FnMut(CopyProgress) + Send + 'static,
) -> Result<Backup, Problem> {
    let store = open_existing(dir)?.map_err(|error| problem(&error))?;
    let report = store.backup(file, progress).await.map_err(|error| problem(&error))?;
    Ok(Backup { path: report.path, bytes: report.bytes })
}

/// Makes the database of a directory from a backup.
pub(crate) fn restore(dir: &Path, file: &Path, replace: bool) -> Result<Restored, Problem> {
    data::make(dir)?;
    let to = path(dir);
    let options =
        RestoreOptions { from: file.to_owned(), to: to.clone(), replace, env: Env::system() };
    let report = provost_store::restore(&options).map_err(|error| match error {
        StoreError::Exists { .. } => {
            let what = format!("there is a database at {}", to.display());
            Problem::new(ErrorKind::Conflict, what)
                .help("back it up with `provost db backup FILE`, then add --replace")
        }
        error => problem(&error),
    })?;
    Ok(Restored { generation: report.generation, schema_version: report.schema_version })
}

/// Measures a database that exists.
pub(crate) async fn size(dir: &Path) -> Result<DatabaseSize, Problem> {
    let store = open_existing(dir)?.map_err(|error| problem(&error))?;
    store.size().await.map_err(|error| problem(&error))
}

/// Opens a database that exists. None is made.
fn open_existing(dir: &Path) -> Result<Result<Store, StoreError>, Problem> {
    let file = path(dir);
    if !file.exists() {
        let what = format!("there is no database at {}", file.display());
        return Err(Problem::new(ErrorKind::NotFound, what)
            .help("name its directory with --data DIR or PROVOST_DATA; `provost chat` makes one"));
    }
    Ok(Store::open(StoreOptions::in_dir(dir)))
}

/// A failure of the database as a problem. Its sentence says what to do.
fn problem(error: &StoreError) -> Problem {
    Problem::new(error.kind(), error.to_string())
}
