//! Why something could not be remembered or found.

use provost_core::{ErrorInfo, ErrorKind, MemoryId};
use provost_model::ModelError;

/// Why something could not be remembered or found.
#[derive(Debug, Clone, thiserror::Error)]
pub enum MemoryError {
    /// What was given cannot be used.
    #[error("{0}")]
    Invalid(String),
    /// This owner has no such memory; somebody else's is not told apart.
    #[error("there is no memory {0}")]
    NotFound(MemoryId),
    /// The memory is not the current one any more.
    #[error("memory {0} was replaced by another one: change that one")]
    Superseded(MemoryId),
    /// The work was taken over or called off meanwhile; nothing was written.
    #[error("the extraction job {0} was taken over or called off")]
    JobGone(u64),
    /// The vectors of one store must come from one embedder.
    #[error(
        "the store holds vectors of `{stored}`, not of `{given}`: use that embedder, or another store"
    )]
    Space {
        /// Whose vectors are there.
        stored: String,
        /// Whose vector was given.
        given: String,
    },
    /// A model or an embedder failed.
    #[error("{0}")]
    Model(#[from] ModelError),
    /// A model answered something else than it was asked for.
    #[error("the memory model gave an answer that cannot be used: {0}")]
    Answer(String),
    /// The storage failed.
    #[error("memory storage: {0}")]
    Storage(String),
    /// Somebody else holds the storage for too long.
    #[error("memory storage is busy: {0}")]
    Busy(String),
    /// The file is not one of ours, or damaged.
    #[error("the memory file cannot be used: {0}")]
    File(String),
    /// A defect of Provost itself.
    #[error("a defect in the memory: {0}")]
    Bug(String),
}

impl MemoryError {
    /// The shared kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(_) | Self::Space { .. } => ErrorKind::Invalid,
            Self::NotFound(_) => ErrorKind::NotFound,
            Self::Superseded(_) | Self::JobGone(_) => ErrorKind::Conflict,
            Self::Model(error) => error.kind(),
            Self::Answer(_) | Self::File(_) => ErrorKind::Malformed,
            Self::Storage(_) | Self::Busy(_) => ErrorKind::Unavailable,
            Self::Bug(_) => ErrorKind::Bug,
        }
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "memory_invalid",
            Self::NotFound(_) => "memory_not_found",
            Self::Superseded(_) => "memory_superseded",
            Self::JobGone(_) => "memory_job_gone",
            Self::Space { .. } => "memory_space",
            Self::Model(error) => error.class.as_str(),
            Self::Answer(_) => "memory_answer",
            Self::Storage(_) | Self::Busy(_) => "memory_storage",
            Self::File(_) => "memory_file",
            Self::Bug(_) => "bug",
        }
    }

    /// The error as data.
    pub fn info(&self) -> ErrorInfo {
        ErrorInfo::new(self.kind(), self.code(), self.to_string())
    }
}
