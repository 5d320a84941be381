//! Errors of reads.

use provost_core::durable::DurableEventError;
use provost_core::lifecycle::RequestError;
use provost_core::{ErrorInfo, ErrorKind};

use crate::StoreError;

/// Error of a read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum QueryError {
    /// The row does not exist in the namespace, or the request is invalid.
    #[error(transparent)]
    Work(#[from] RequestError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A stored value cannot be decoded: a newer program or a person wrote it.
    #[error("a stored value cannot be read: {0}")]
    Unreadable(String),
}

impl QueryError {
    /// Creates the error for a row that does not exist in the caller's namespace.
    pub fn not_found(what: &'static str, id: impl std::fmt::Display) -> Self {
        Self::Work(RequestError::not_found(what, id))
    }

    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Work(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Unreadable(_) => "unreadable",
        }
    }

    /// Returns the category, which determines retries, the HTTP status and the exit code.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Work(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Unreadable(_) => ErrorKind::Malformed,
        }
    }

    /// Returns the error as data.
    pub fn info(&self) -> ErrorInfo {
        ErrorInfo::new(self.kind(), self.code(), self.to_string())
    }
}

impl From<serde_json::Error> for QueryError {
    fn from(error: serde_json::Error) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl From<DurableEventError> for QueryError {
    fn from(error: DurableEventError) -> Self {
        Self::Unreadable(error.to_string())
    }
}
