//! Errors of file operations in a workspace.

use std::io;

use provost_core::ErrorKind;

/// A file operation failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument is invalid.
    #[error("{0}")]
    Argument(String),
    /// The path does not exist.
    #[error("`{path}` does not exist")]
    NotFound {
        /// Path as passed.
        path: String,
    },
    /// A link of the path leads outside.
    #[error("`{path}` leaves the workspace: a link of the path points outside")]
    Outside {
        /// Path as passed.
        path: String,
    },
    /// The path has another file type than required.
    #[error("`{path}` is {actual}, not {required}")]
    Kind {
        /// Path as passed.
        path: String,
        /// Actual file type.
        actual: &'static str,
        /// Required file type.
        required: &'static str,
    },
    /// The access mode of the workspace does not permit the operation.
    #[error("the workspace {0}")]
    Access(&'static str),
    /// The content of the file is not supported.
    #[error("{0}")]
    Content(String),
    /// The file changed concurrently.
    #[error("`{path}` was changed concurrently: read it again")]
    Changed {
        /// Path as passed.
        path: String,
    },
    /// The call was cancelled.
    #[error("the call was cancelled")]
    Cancelled,
    /// An operating system call failed.
    #[error("`{path}`: {source}")]
    Io {
        /// Path as passed.
        path: String,
        /// Error of the operating system.
        source: io::Error,
    },
}

impl Error {
    /// Returns the category of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Argument(_) | Self::Kind { .. } | Self::Content(_) => ErrorKind::Invalid,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Outside { .. } | Self::Access(_) => ErrorKind::Denied,
            Self::Changed { .. } => ErrorKind::Conflict,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => ErrorKind::Denied,
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Exhausted,
                _ => ErrorKind::Unavailable,
            },
        }
    }

    /// Wraps an error of the operating system for a path.
    pub fn io(path: &impl ToString, error: impl Into<io::Error>) -> Self {
        let source = error.into();
        let path = path.to_string();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            _ => Self::Io { path, source },
        }
    }
}

/// Result of a workspace operation.
pub type Result<T> = std::result::Result<T, Error>;
