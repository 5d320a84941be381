//! What SQLite's errors mean for a session.

use std::io;

use crate::SessionError;
use rusqlite::ErrorCode;

/// Stands for the id where an operation is about all sessions.
pub(super) const ALL: &str = "*";

/// What a failure of SQLite means for the session that it was about.
pub(super) fn fault(id: &str, error: rusqlite::Error) -> SessionError {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => SessionError::Corrupt {
            id: id.to_owned(),
            problem: format!("the database is damaged: {error}; restore it from a copy"),
        },
        code => {
            let message = format!("session `{id}`: {error}");
            SessionError::Storage { message, source: io::Error::new(io_kind(code), error) }
        }
    }
}

/// The nearest word of the standard library.
pub(super) fn io_kind(code: Option<ErrorCode>) -> io::ErrorKind {
    match code {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => io::ErrorKind::ResourceBusy,
        Some(ErrorCode::DiskFull) => io::ErrorKind::StorageFull,
        Some(ErrorCode::ReadOnly) => io::ErrorKind::ReadOnlyFilesystem,
        Some(ErrorCode::PermissionDenied) => io::ErrorKind::PermissionDenied,
        Some(ErrorCode::CannotOpen) => io::ErrorKind::NotFound,
        Some(ErrorCode::TooBig) => io::ErrorKind::InvalidInput,
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
