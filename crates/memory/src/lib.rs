//! Memory: what agents know about people, across conversations.
//!
//! - [`Memories`] is what programs use: a [`MemoryStore`] and an embedder.
//! - [`InMemoryStore`] and [`SqliteMemoryStore`] keep memories by [`Owner`]; nothing is ever reachable across owners.
//! - [`MemoryKeeper`] extracts facts from conversations, and a crash loses none.
//! - [`MemoryHook`] gives an agent what is known about the user, [`memory_tools`] lets it look and write itself.

#[cfg(any(test, feature = "test-support"))]
pub mod conformance;
mod error;
mod hook;
mod in_memory;
mod job;
mod keeper;
mod memories;
mod memory;
mod rank;
mod sqlite;
mod store;
mod tools;

pub use error::MemoryError;
pub use hook::{HookOptions, MemoryHook, OwnerOf};
pub use in_memory::InMemoryStore;
pub use job::{
    Claim, Conversation, Cursor, Job, JobInfo, JobKey, MESSAGE_BYTES_MAX, MESSAGES_MAX, Postponed,
    Said,
};
pub use keeper::{Flushed, KeeperOptions, KeeperTotals, MemoryKeeper};
pub use memories::{Edit, Memories};
pub use memory::{
    Category, METADATA_BYTES_MAX, Memory, NewMemory, OWNER_BYTES_MAX, Owner, SOURCES_MAX, Source,
    TEXT_BYTES_MAX, digest,
};
pub use rank::VECTOR_WEIGHT_DEFAULT;
pub use sqlite::{SqliteMemoryStore, SqliteOptions};
pub use store::{
    Batch, Change, Entry, Filter, Forget, Found, Listing, MemoryFuture, MemoryStore, PAGE_MAX,
    Page, Query, SEARCH_LIMIT_MAX, Update, Vector,
};
pub use tools::{MemoryTools, memory_tools};
