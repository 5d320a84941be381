//! Errors of memory operations.

use provost_core::{ErrorInfo, ErrorKind, MemoryId};
use provost_model::ModelError;

/// Error of a memory operation.
#[derive(Debug, Clone, thiserror::Error)]
pub enum MemoryError {
    /// The request is invalid.
    #[error("{0}")]
    Invalid(String),
    /// The owner has no memory with this id. An id of another owner's memory gives the same error.
    #[error("there is no memory {0}")]
    NotFound(MemoryId),
    /// Another memory has superseded this one, so it can no longer be changed.
    #[error("memory {0} was superseded by a newer memory: change the newer one")]
    Superseded(MemoryId),
    /// The claim of an extraction job was lost: another worker claimed the job, or the job was deleted. Nothing was
    /// written.
    #[error("the claim of extraction job {0} was lost: the job was claimed again or deleted")]
    ClaimLost(u64),
    /// The embedding comes from another embedder than the stored ones. Embeddings of different embedders cannot be
    /// compared.
    #[error(
        "the store contains embeddings of `{stored}`, not of `{rejected}`: use that embedder, or another store"
    )]
    EmbeddingSpaceMismatch {
        /// Embedding space of the stored embeddings.
        stored: String,
        /// Embedding space of the rejected embedding.
        rejected: String,
    },
    /// The model or the embedder failed.
    #[error("{0}")]
    Model(#[from] ModelError),
    /// The response of the model or the embedder does not have the requested form.
    #[error("the memory model returned an unusable response: {0}")]
    InvalidResponse(String),
    /// Reading or writing the storage failed.
    #[error("memory storage: {0}")]
    Storage(String),
    /// Another process held the storage for longer than the timeout.
    #[error("memory storage is busy: {0}")]
    Busy(String),
    /// The file is not a memory database, is corrupt, or has a newer schema.
    #[error("the memory file cannot be used: {0}")]
    CorruptFile(String),
    /// A defect of Provost itself.
    #[error("a defect in the memory: {0}")]
    Bug(String),
}

impl MemoryError {
    /// Returns the category that decides how callers handle the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid(_) | Self::EmbeddingSpaceMismatch { .. } => ErrorKind::Invalid,
            Self::NotFound(_) => ErrorKind::NotFound,
            Self::Superseded(_) | Self::ClaimLost(_) => ErrorKind::Conflict,
            Self::Model(error) => error.kind(),
            Self::InvalidResponse(_) | Self::CorruptFile(_) => ErrorKind::Malformed,
            Self::Storage(_) | Self::Busy(_) => ErrorKind::Unavailable,
            Self::Bug(_) => ErrorKind::Bug,
        }
    }

    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid(_) => "memory_invalid",
            Self::NotFound(_) => "memory_not_found",
            Self::Superseded(_) => "memory_superseded",
            Self::ClaimLost(_) => "memory_job_gone",
            Self::EmbeddingSpaceMismatch { .. } => "memory_space",
            Self::Model(error) => error.class.as_str(),
            Self::InvalidResponse(_) => "memory_answer",
            Self::Storage(_) | Self::Busy(_) => "memory_storage",
            Self::CorruptFile(_) => "memory_file",
            Self::Bug(_) => "bug",
        }
    }

    /// Returns the error as data.
    pub fn info(&self) -> ErrorInfo {
        ErrorInfo::new(self.kind(), self.code(), self.to_string())
    }
}
