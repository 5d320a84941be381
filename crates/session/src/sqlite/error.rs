//! Errors of opening a session file.

use std::io;
use std::path::{Path, PathBuf};

use provost_core::ErrorKind;
use provost_store::StoreError;

use super::transaction_error::io_kind;

/// Error of opening a session file. The file remains unchanged.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The table prefix is invalid.
    #[error(
        "`{prefix}` is not a table prefix: use up to {chars_max} of a-z, 0-9 and `_`, a letter first, and not `sqlite_`"
    )]
    InvalidPrefix {
        /// The rejected prefix, shortened.
        prefix: String,
        /// Maximum length of a prefix.
        chars_max: usize,
    },
    /// The file is corrupt or not an SQLite database.
    #[error("`{}` is not a sound SQLite database: {problem}; restore it from a copy", path.display())]
    Corrupt {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem.
        problem: String,
    },
    /// The file contains a table of another program with a name that the store needs.
    #[error("`{}` has a table `{table}` of another program: choose another table prefix", path.display())]
    TableTaken {
        /// Path of the file.
        path: PathBuf,
        /// Name of the table.
        table: String,
    },
    /// A newer program has migrated the tables.
    #[error(
        "the sessions in `{}` have schema {found}, this program knows {known}: use a newer program", path.display()
    )]
    SchemaTooNew {
        /// Path of the file.
        path: PathBuf,
        /// Schema version of the file.
        found: i64,
        /// Newest schema version that this program supports.
        known: i64,
    },
    /// The file cannot be opened.
    #[error("`{}` cannot be opened: {source}", path.display())]
    Storage {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the failure.
        #[source]
        source: std::io::Error,
    },
}

impl OpenError {
    /// Returns the category that decides how callers handle the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::InvalidPrefix { .. } => ErrorKind::Invalid,
            Self::Corrupt { .. } => ErrorKind::Malformed,
            Self::TableTaken { .. } | Self::SchemaTooNew { .. } => ErrorKind::Conflict,
            Self::Storage { .. } => ErrorKind::Unavailable,
        }
    }
}

/// Converts a store error of opening the file at `path`.
pub(super) fn open_error(path: &Path, error: StoreError) -> OpenError {
    let path = path.to_owned();
    match error {
        StoreError::Corrupt { detail } | StoreError::NotADatabase { detail, .. } => {
            OpenError::Corrupt { path, problem: detail }
        }
        StoreError::TableTaken { table } => OpenError::TableTaken { path, table },
        StoreError::SchemaTooNew { found, known } => {
            OpenError::SchemaTooNew { path, found: found.into(), known: known.into() }
        }
        error => OpenError::Storage { path, source: io::Error::new(io_kind(&error), error) },
    }
}
