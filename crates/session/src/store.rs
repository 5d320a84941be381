//! The contract of a session store.

use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::text::first_chars;
use provost_core::{ErrorKind, Message, Timestamp};
use serde::{Deserialize, Serialize};

/// Bytes of a session id; the same for every store, so that sessions can move between them.
pub const SESSION_ID_BYTES_MAX: usize = 128;

/// The stored messages of a session, oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transcript {
    /// All messages, those behind a summary included.
    pub messages: Vec<Arc<Message>>,
    /// Grows by one with each commit; the first is 1.
    pub revision: u64,
}

/// One atomic change of a session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SessionChange {
    /// Number of the newest messages to remove first; more than there are removes all.
    pub pop: usize,
    /// Messages to add after that.
    pub add: Vec<Arc<Message>>,
}

impl SessionChange {
    /// Combines this change with one that follows it.
    #[must_use]
    pub fn then(mut self, next: Self) -> Self {
        let beyond = next.pop.saturating_sub(self.add.len());
        self.add.truncate(self.add.len().saturating_sub(next.pop));
        self.add.extend(next.add);
        self.pop = self.pop.saturating_add(beyond);
        self
    }
}

/// A session in a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// Its id.
    pub id: String,
    /// How many messages it has.
    pub messages: usize,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// Why a session could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Somebody else wrote meanwhile; load again and repeat.
    #[error("session `{id}` is at revision {found}, not {expected}: another run wrote to it")]
    Conflict {
        /// Which session.
        id: String,
        /// What the writer had seen.
        expected: u64,
        /// What is there.
        found: u64,
    },
    /// The id cannot name a session.
    #[error("`{id}` is not a session id: {problem}")]
    Id {
        /// The id as given.
        id: String,
        /// What is wrong with it.
        problem: String,
    },
    /// What is stored is not a session.
    #[error("session `{id}` cannot be read: {problem}")]
    Corrupt {
        /// Which session.
        id: String,
        /// What is wrong, and where.
        problem: String,
    },
    /// The storage itself failed.
    #[error("session storage: {message}")]
    Storage {
        /// What was tried.
        message: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
}

impl SessionError {
    /// The shared kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::Id { .. } => ErrorKind::Invalid,
            Self::Corrupt { .. } => ErrorKind::Malformed,
            Self::Storage { .. } => ErrorKind::Unavailable,
        }
    }
}

/// What a store's call gives.
pub type SessionFuture<'a, T> = BoxFuture<'a, Result<T, SessionError>>;

/// Where sessions are kept.
pub trait SessionStore: Send + Sync + 'static {
    /// The whole transcript, or `None` if there is no such session.
    fn load<'a>(&'a self, id: &'a str) -> SessionFuture<'a, Option<Transcript>>;

    /// Applies a change to the revision `base`, all of it or nothing, and returns the new revision.
    ///
    /// A base of 0 creates the session. A base that is not the stored revision is a [`SessionError::Conflict`].
    /// When it returns, a crash can no longer lose the change.
    fn commit<'a>(
        &'a self,
        id: &'a str,
        base: u64,
        change: SessionChange,
    ) -> SessionFuture<'a, u64>;

    /// Removes the session; true if there was one.
    fn delete<'a>(&'a self, id: &'a str) -> SessionFuture<'a, bool>;

    /// All sessions, the most recently changed first.
    fn list(&self) -> SessionFuture<'_, Vec<SessionInfo>>;
}

/// Refuses an id that no store takes.
pub(crate) fn check_id(id: &str) -> Result<(), SessionError> {
    if id.len() <= SESSION_ID_BYTES_MAX {
        return Ok(());
    }
    let shown = first_chars(id, 32);
    Err(SessionError::Id {
        id: format!("{shown}…"),
        problem: format!("it has {} bytes, use at most {SESSION_ID_BYTES_MAX}", id.len()),
    })
}

/// Refuses a change that was made for another revision than the stored one.
pub(crate) fn check_base(id: &str, expected: u64, found: u64) -> Result<(), SessionError> {
    if expected == found {
        return Ok(());
    }
    Err(SessionError::Conflict { id: id.to_owned(), expected, found })
}
