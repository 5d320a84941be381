//! What a failure of the database means for a session.

use std::io;

use provost_store::StoreError;

use crate::SessionError;

/// Stands for the id where an operation is about all sessions.
pub(super) const ALL: &str = "*";

/// Why a transaction failed.
pub(super) enum Fault {
    /// The database failed.
    Store(StoreError),
    /// The session cannot be read or changed.
    Session(SessionError),
}

impl Fault {
    /// The failure for the session that the transaction was about.
    pub(super) fn of(self, id: &str) -> SessionError {
        match self {
            Self::Session(error) => error,
            Self::Store(
                StoreError::Damaged { detail } | StoreError::NotADatabase { detail, .. },
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

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl From<SessionError> for Fault {
    fn from(error: SessionError) -> Self {
        Self::Session(error)
    }
}

/// The nearest word of the standard library.
pub(super) fn io_kind(error: &StoreError) -> io::ErrorKind {
    match error {
        StoreError::Busy { .. } => io::ErrorKind::ResourceBusy,
        StoreError::Full { .. } => io::ErrorKind::StorageFull,
        StoreError::ReadOnly { .. } => io::ErrorKind::ReadOnlyFilesystem,
        _ => io::ErrorKind::Other,
    }
}

/// Refuses what is too large to keep.
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

/// The storage does not work any more.
pub(super) fn stopped(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> SessionError {
    let message = "the database thread has stopped: open the file again".to_owned();
    SessionError::Storage { message, source: io::Error::other(error) }
}
