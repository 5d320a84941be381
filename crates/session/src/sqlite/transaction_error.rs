//! Errors of transactions, and their conversion into session errors.

use std::io;

use provost_store::StoreError;

use crate::SessionError;

/// Placeholder of the session id in operations on all sessions.
pub(super) const ALL_SESSIONS: &str = "*";

/// Error of a transaction.
pub(super) enum TransactionError {
    /// The database failed.
    Store(StoreError),
    /// Reading or changing the session failed.
    Session(SessionError),
}

impl TransactionError {
    /// Converts the error into a [`SessionError`] of the session `id`.
    pub(super) fn for_session(self, id: &str) -> SessionError {
        match self {
            Self::Session(error) => error,
            Self::Store(
                StoreError::Corrupt { detail } | StoreError::NotADatabase { detail, .. },
            ) => SessionError::Corrupt {
                id: id.to_owned(),
                problem: format!("the database is damaged: {detail}; restore it from a copy"),
            },
            Self::Store(error) => SessionError::Storage {
                message: format!("session `{id}`: {error}"),
                source: io::Error::new(io_kind(&error), error),
            },
        }
    }
}

impl From<StoreError> for TransactionError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<SessionError> for TransactionError {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

/// Returns the closest error kind of the standard library.
pub(super) fn io_kind(error: &StoreError) -> io::ErrorKind {
    match error {
        StoreError::Busy { .. } => io::ErrorKind::ResourceBusy,
        StoreError::DiskFull { .. } => io::ErrorKind::StorageFull,
        StoreError::ReadOnly { .. } => io::ErrorKind::ReadOnlyFilesystem,
        _ => io::ErrorKind::Other,
    }
}

/// Returns an error if a value is too large.
pub(super) fn check_size(
    id: &str,
    what: &str,
    size: usize,
    max: usize,
) -> Result<(), SessionError> {
    if size <= max {
        return Ok(());
    }
    let problem = format!("{what} of {size} bytes is too large, use at most {max}");
    Err(SessionError::Storage {
        message: format!("session `{id}`: {problem}"),
        source: io::Error::new(io::ErrorKind::InvalidInput, problem),
    })
}

/// Creates the error for a stopped database thread.
pub(super) fn database_closed(
    error: impl Into<Box<dyn std::error::Error + Send + Sync>>,
) -> SessionError {
    let message = "the database thread has stopped: open the file again".to_owned();
    SessionError::Storage { message, source: io::Error::other(error) }
}
