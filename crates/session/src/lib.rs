//! Conversations that outlive a run, and values that outlive it: of a conversation, a user, a whole installation.
//!
//! A [`SessionStore`] stores messages by session id. A run loads the transcript once and then commits whole turns: each commit is
//! atomic and names the revision that it builds on, so two writers never interleave. [`MemorySessions`] stores sessions in this
//! process, and `SqliteSessions` (feature `sqlite`) in one file.

#[cfg(any(test, feature = "test-support"))]
pub mod conformance;
mod memory;
mod session;
pub mod shared_state;
#[cfg(feature = "sqlite")]
mod sqlite;
mod store;

pub use memory::MemorySessions;
pub use session::Session;
#[cfg(feature = "sqlite")]
pub use sqlite::{OpenError, SessionCursor, SessionPage, SqliteSessions, SqliteSessionsOptions};
pub use store::{
    SESSION_ID_BYTES_MAX, SessionChange, SessionError, SessionFuture, SessionInfo, SessionStore,
    Transcript,
};

/// The page of `docs/` whose example is compiled and run with the documentation of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sessions.md")]
mod docs {}
