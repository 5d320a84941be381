//! Why a file of sessions cannot be opened.

use std::io;
use std::path::{Path, PathBuf};

use provost_core::ErrorKind;
use provost_store::StoreError;

use super::fault::io_kind;

/// Why a file of sessions cannot be opened. A file that is refused stays as it is.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The prefix cannot begin the name of a table.
    #[error(
        "`{prefix}` is not a table prefix: use up to {chars_max} of a-z, 0-9 and `_`, a letter first, and not `sqlite_`"
    )]
    Prefix {
        /// The prefix as given.
        prefix: String,
        /// How long it may be.
        chars_max: usize,
    },
    /// The file is damaged, or no database at all.
    #[error("`{}` is not a sound SQLite database: {problem}; restore it from a copy", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A table of somebody else has the name of one of ours.
    #[error("`{}` has a table `{table}` of another program: choose another table prefix", path.display())]
    Taken {
        /// The file.
        path: PathBuf,
        /// The table.
        table: String,
    },
    /// The tables were made by a newer program.
    #[error(
        "the sessions in `{}` have schema {found}, this program knows {known}: use a newer program", path.display()
    )]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest schema this program knows.
        known: i64,
    },
    /// The file cannot be reached.
    #[error("`{}` cannot be opened: {source}", path.display())]
    Storage {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

impl OpenError {
    /// The shared kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Prefix { .. } => ErrorKind::Invalid,
            Self::Damaged { .. } => ErrorKind::Malformed,
            Self::Taken { .. } | Self::Newer { .. } => ErrorKind::Conflict,
            Self::Storage { .. } => ErrorKind::Unavailable,
        }
    }
}

/// Why the file at `path` was refused.
pub(super) fn refusal(path: &Path, error: StoreError) -> OpenError {
    let path = path.to_owned();
    match error {
        StoreError::Damaged { detail } | StoreError::NotADatabase { detail, .. } => {
            OpenError::Damaged { path, problem: detail }
        }
        StoreError::TableTaken { table } => OpenError::Taken { path, table },
        StoreError::NewerSchema { found, known } => {
            OpenError::Newer { path, found: found.into(), known: known.into() }
        }
        error => OpenError::Storage { path, source: io::Error::new(io_kind(&error), error) },
    }
}
