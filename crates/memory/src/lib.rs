//! Long-term memory of agents: facts about users that persist across conversations.
//!
//! - [`MemoryService`] is the entry point for programs. It combines a [`MemoryStore`] with an embedder.
//! - [`InMemoryStore`] and [`SqliteMemoryStore`] store memories by [`Owner`]. No call crosses the boundary between
//!   owners.
//! - [`MemoryExtractor`] extracts facts from conversations. A crash loses no queued conversation.
//! - [`MemoryHook`] adds relevant memories to model requests.
//! - [`memory_tools`] lets a model search, store, correct and delete memories.

#[cfg(any(test, feature = "test-support"))]
pub mod conformance;
mod error;
mod extractor;
mod hook;
mod in_memory;
mod job;
mod memory;
mod rank;
mod service;
mod sqlite;
mod store;
mod tools;

pub use error::MemoryError;
pub use extractor::{ExtractorOptions, ExtractorStats, FlushReport, MemoryExtractor};
pub use hook::{MemoryHook, OwnerSource, RecallOptions};
pub use in_memory::InMemoryStore;
pub use job::{
    ClaimResult, Conversation, ConversationMessage, ExtractionJob, JobClaim, JobRetry, JobStatus,
    MESSAGE_BYTES_MAX, MESSAGES_MAX, ReadCursor,
};
pub use memory::{
    METADATA_BYTES_MAX, Memory, MemoryCategory, MemorySource, NewMemory, OWNER_BYTES_MAX, Owner,
    SOURCES_MAX, TEXT_BYTES_MAX, digest,
};
pub use rank::VECTOR_WEIGHT_DEFAULT;
pub use service::{MemoryService, MemoryUpdate};
pub use sqlite::{SqliteMemoryStore, SqliteOptions};
pub use store::{
    ChangeSet, DeleteScope, Embedding, ListRequest, MemoryChange, MemoryFilter, MemoryFuture,
    MemoryPage, MemoryRecord, MemoryStore, PAGE_MAX, RecordUpdate, SEARCH_LIMIT_MAX, SearchHit,
    SearchQuery,
};
pub use tools::{MemoryTools, memory_tools};
