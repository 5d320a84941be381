//! Sessions: conversations that persist across runs. Shared state: values of a session, a user or the whole
//! application that persist across runs.
//!
//! A [`SessionStore`] stores messages by session id. A run loads the transcript once and then commits complete turns.
//! Each commit is atomic and names the revision that it builds on, so two writers never interleave.
//! [`InMemorySessionStore`] stores sessions in the memory of this process, and `SqliteSessionStore` (feature
//! `sqlite`) in one file.

#[cfg(any(test, feature = "test-support"))]
pub mod conformance;
mod in_memory;
mod session;
pub mod shared_state;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;

pub use in_memory::InMemorySessionStore;
pub use session::Session;
#[cfg(feature = "sqlite")]
pub use sqlite::{OpenError, SessionCursor, SessionPage, SqliteSessionOptions, SqliteSessionStore};
pub use store::{
    SESSION_ID_BYTES_MAX, SessionChange, SessionError, SessionFuture, SessionInfo, SessionStore,
    Transcript,
};
