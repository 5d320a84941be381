//! What can go wrong with the files of a workspace.

use std::io;

use provost_core::ErrorKind;

/// Why something about a workspace did not work.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An argument that can never work.
    #[error("{0}")]
    Argument(String),
    /// Nothing is there.
    #[error("`{path}` does not exist")]
    NotFound {
        /// As it was given.
        path: String,
    },
    /// A link on the way leads out.
    #[error("`{path}` leads out of the workspace: a link on the way points outside")]
    Outside {
        /// As it was given.
        path: String,
    },
    /// Something else than what is needed.
    #[error("`{path}` is {is}, not {needed}")]
    Kind {
        /// As it was given.
        path: String,
        /// What is there.
        is: &'static str,
        /// What must be there.
        needed: &'static str,
    },
    /// The workspace does not allow it.
    #[error("the workspace {0}")]
    Access(&'static str),
    /// What is in the file is not what the tool can use.
    #[error("{0}")]
    Content(String),
    /// Somebody else changed it at the same time.
    #[error("`{path}` was changed by somebody else at the same time: look at it again")]
    Changed {
        /// As it was given.
        path: String,
    },
    /// Nobody waits for it any more.
    #[error("the call was stopped")]
    Stopped,
    /// The operating system says no.
    #[error("`{path}`: {source}")]
    Io {
        /// As it was given.
        path: String,
        /// What it says.
        source: io::Error,
    },
}

impl Error {
    /// What a program can do about it.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Argument(_) | Self::Kind { .. } | Self::Content(_) => ErrorKind::Invalid,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Outside { .. } | Self::Access(_) => ErrorKind::Denied,
            Self::Changed { .. } => ErrorKind::Conflict,
            Self::Stopped => ErrorKind::Cancelled,
            Self::Io { source, .. } => match source.kind() {
                io::ErrorKind::PermissionDenied => ErrorKind::Denied,
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Exhausted,
                _ => ErrorKind::Unavailable,
            },
        }
    }

    /// What the operating system said about a path.
    pub fn io(path: &impl ToString, error: impl Into<io::Error>) -> Self {
        let source = error.into();
        let path = path.to_string();
        match source.kind() {
            io::ErrorKind::NotFound => Self::NotFound { path },
            _ => Self::Io { path, source },
        }
    }
}

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
