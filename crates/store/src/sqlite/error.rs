//! Maps SQLite's result codes to store errors.

use std::path::Path;

use rusqlite::ffi;
use rusqlite::{Error, ErrorCode};

use crate::StoreError;
use crate::error::ConstraintKind;

/// Converts an error that SQLite reported for the database at `path`.
pub(super) fn translate(error: Error, path: &Path) -> StoreError {
    let detail = error.to_string();
    let Error::SqliteFailure(failure, _) = error else {
        return StoreError::bug(detail);
    };
    match failure.code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked => StoreError::Busy { detail },
        ErrorCode::DiskFull => StoreError::DiskFull { detail },
        ErrorCode::DatabaseCorrupt => StoreError::Corrupt { detail },
        ErrorCode::NotADatabase => StoreError::NotADatabase { path: path.to_owned(), detail },
        ErrorCode::ReadOnly | ErrorCode::PermissionDenied => StoreError::ReadOnly { detail },
        ErrorCode::ConstraintViolation => constraint(failure.extended_code, detail),
        ErrorCode::SystemIoFailure if failure.extended_code == ffi::SQLITE_IOERR_CORRUPTFS => {
            StoreError::Corrupt { detail }
        }
        ErrorCode::SystemIoFailure
        | ErrorCode::CannotOpen
        | ErrorCode::OutOfMemory
        | ErrorCode::FileLockingProtocolFailed
        | ErrorCode::NoLargeFileSupport => StoreError::Io { detail },
        _ => StoreError::bug(detail),
    }
}

/// Creates the error of a violated constraint.
fn constraint(extended_code: i32, detail: String) -> StoreError {
    let rule = match extended_code {
        ffi::SQLITE_CONSTRAINT_UNIQUE
        | ffi::SQLITE_CONSTRAINT_PRIMARYKEY
        | ffi::SQLITE_CONSTRAINT_ROWID => ConstraintKind::Unique,
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => ConstraintKind::Reference,
        ffi::SQLITE_CONSTRAINT_NOTNULL => ConstraintKind::NotNull,
        _ => ConstraintKind::Check,
    };
    StoreError::Constraint { rule, detail }
}
