//! Conversations and state that outlive a run.
//!
//! ```
//! use provost::Agent;
//! use provost::session::InMemorySessionStore;
//! use provost::testing::ScriptedModel;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let model = ScriptedModel::new().text("Hello, Ada!").text("You are Ada.");
//! let agent = Agent::builder("friend", model).session_store(InMemorySessionStore::new()).build()?;
//! agent.run("I am Ada").session("ada").await?;
//! assert_eq!(agent.run("Who am I?").session("ada").await?.output, "You are Ada.");
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! # }).unwrap();
//! ```
//!
//! [`InMemorySessionStore`] keeps sessions in this process. `SqliteSessionStore` (feature `sqlite-sessions`) stores them in a
//! file. [`shared_state`] contains the stores of values that belong to a session, a user or the whole installation.

pub use provost_session::{
    InMemorySessionStore, Session, SessionChange, SessionError, SessionFuture, SessionInfo,
    SessionStore, Transcript, shared_state,
};
#[cfg(feature = "sqlite-sessions")]
pub use provost_session::{
    OpenError, SessionCursor, SessionPage, SqliteSessionOptions, SqliteSessionStore,
};
