//! The contract of a session store.

use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::text::first_chars;
use provost_core::{ErrorKind, Message, Timestamp};
use serde::{Deserialize, Serialize};

/// Maximum length of a session id, in bytes. It is the same for every store, so sessions can be moved between stores.
pub const SESSION_ID_BYTES_MAX: usize = 128;

/// The stored messages of a session, oldest first.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Transcript {
    /// All messages, including those before a summary.
    pub messages: Vec<Arc<Message>>,
    /// Number of commits. The first commit creates revision 1.
    pub revision: u64,
}

/// One atomic change of a session.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SessionChange {
    /// Number of the newest messages to remove first. A number above the length removes all.
    pub pop: usize,
    /// Messages to add after that.
    pub add: Vec<Arc<Message>>,
}

impl SessionChange {
    /// Combines this change with one that follows it: the later removal first removes messages that this change adds.
    #[must_use]
    pub fn then(mut self, next: Self) -> Self {
        let beyond = next.pop.saturating_sub(self.add.len());
        self.add.truncate(self.add.len().saturating_sub(next.pop));
        self.add.extend(next.add);
        self.pop = self.pop.saturating_add(beyond);
        self
    }
}

/// A session in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// Id of the session.
    pub id: String,
    /// Number of messages.
    pub messages: usize,
    /// Time of the last change.
    pub updated_at: Timestamp,
}

/// Error of a session store.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// Another writer changed the session. Load it again and repeat the change.
    #[error("session `{id}` is at revision {found}, not {expected}: another run wrote to it")]
    Conflict {
        /// Id of the session.
        id: String,
        /// The revision that the change builds on.
        expected: u64,
        /// The stored revision.
        found: u64,
    },
    /// The session id is invalid.
    #[error("`{id}` is not a session id: {problem}")]
    Id {
        /// The rejected id, shortened.
        id: String,
        /// Description of the problem.
        problem: String,
    },
    /// The stored session is corrupt.
    #[error("session `{id}` cannot be read: {problem}")]
    Corrupt {
        /// Id of the session.
        id: String,
        /// Description of the problem and its position.
        problem: String,
    },
    /// Reading or writing the storage failed.
    #[error("session storage: {message}")]
    Storage {
        /// Description of the failed operation.
        message: String,
        /// Cause of the failure.
        #[source]
        source: std::io::Error,
    },
}

impl SessionError {
    /// Returns the category that decides how callers handle the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::Id { .. } => ErrorKind::Invalid,
            Self::Corrupt { .. } => ErrorKind::Malformed,
            Self::Storage { .. } => ErrorKind::Unavailable,
        }
    }
}

/// Future that the methods of [`SessionStore`] return.
pub type SessionFuture<'a, T> = BoxFuture<'a, Result<T, SessionError>>;

/// Storage of sessions.
pub trait SessionStore: Send + Sync + 'static {
    /// Returns the complete transcript; `None` if the session does not exist.
    fn load<'a>(&'a self, id: &'a str) -> SessionFuture<'a, Option<Transcript>>;

    /// Applies a change to revision `base` in one transaction and returns the new revision.
    ///
    /// A base of 0 creates the session. If the base is not the stored revision, the call fails with
    /// [`SessionError::Conflict`]. The change is durable when the call returns.
    fn commit<'a>(
        &'a self,
        id: &'a str,
        base: u64,
        change: SessionChange,
    ) -> SessionFuture<'a, u64>;

    /// Deletes a session. Returns false if it does not exist.
    fn delete<'a>(&'a self, id: &'a str) -> SessionFuture<'a, bool>;

    /// Returns all sessions, most recently changed first.
    fn list(&self) -> SessionFuture<'_, Vec<SessionInfo>>;
}

/// Fails if the id is too long.
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

/// Fails with [`SessionError::Conflict`] if a change builds on another revision than the stored one.
pub(crate) fn check_base(id: &str, expected: u64, found: u64) -> Result<(), SessionError> {
    if expected == found {
        return Ok(());
    }
    Err(SessionError::Conflict { id: id.to_owned(), expected, found })
}
