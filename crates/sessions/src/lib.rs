//! Sessions of agents in one SQLite file.
//!
//! [`SqliteSessions`] is a [`SessionStore`](provost_agent::session::SessionStore) like the ones in memory and in files, for
//! programs that have many sessions or want to ask about them: it lists by page, carries metadata, forks and forgets.

mod error;
mod sqlite;

pub use error::OpenError;
pub use sqlite::{SessionCursor, SessionPage, SqliteSessions, SqliteSessionsOptions};

/// The page of `docs/` whose example is compiled and run with the documentation of this crate.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/sessions.md")]
mod docs {}
