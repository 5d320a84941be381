//! Creates a copy of the database while it is in use.

use std::path::{Path, PathBuf};

use super::copy::{self, CopyProgress};
use crate::sqlite::{self, ConnectionRole};
use crate::{Store, StoreError, StoreOptions};

/// Description of a finished backup.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BackupReport {
    /// Path of the backup file.
    pub path: PathBuf,
    /// Size of the backup file in bytes.
    pub bytes: u64,
}

impl Store {
    /// Copies the committed state of the database to the new file `to`. Writers continue during the copy.
    ///
    /// The file gets its name only when it is complete. An existing file is never replaced: the call fails with
    /// [`StoreError::Exists`].
    pub async fn backup(
        &self,
        to: impl Into<PathBuf>,
        mut progress: impl FnMut(CopyProgress) + Send + 'static,
    ) -> Result<BackupReport, StoreError> {
        let to = to.into();
        self.blocking(move |options| backup(options, &to, &mut progress)).await
    }
}

/// Copies the database to a new file.
fn backup(
    options: &StoreOptions,
    to: &Path,
    progress: &mut dyn FnMut(CopyProgress),
) -> Result<BackupReport, StoreError> {
    if to.exists() {
        return Err(StoreError::Exists { path: to.to_owned() });
    }
    let partial = copy::with_suffix(to, ".partial");
    let copied = sqlite::connect(options, ConnectionRole::Reader)
        .and_then(|mut source| copy::copy(&mut source, &partial, progress))
        .and_then(|()| copy::rename(&partial, to));
    if let Err(error) = copied {
        copy::remove(&partial)?;
        return Err(error);
    }
    let bytes = std::fs::metadata(to).map_err(|error| StoreError::file(to, &error))?.len();
    Ok(BackupReport { path: to.to_owned(), bytes })
}
