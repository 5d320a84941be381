//! Integration tests of sessions in SQLite.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, also in what tests share"
)]

mod damage;
mod listing;
mod running;
mod sqlite;
mod state;

use std::path::Path;
use std::sync::Arc;

use provost_core::Message;
use provost_session::{SessionChange, SessionStore, SqliteSessionOptions, SqliteSessionStore};

fn open(path: &Path) -> SqliteSessionStore {
    SqliteSessionStore::open(path, SqliteSessionOptions::default()).unwrap()
}

fn prefixed(prefix: &str) -> SqliteSessionOptions {
    SqliteSessionOptions { table_prefix: prefix.to_owned(), ..Default::default() }
}

/// Creates a change that adds texts.
fn add(texts: &[&str]) -> SessionChange {
    let add = texts.iter().map(|text| Arc::new(Message::user(*text))).collect();
    SessionChange { pop: 0, add }
}

/// Returns the texts of an existing session.
async fn texts(store: &dyn SessionStore, id: &str) -> Vec<String> {
    let transcript = store.load(id).await.unwrap().unwrap();
    transcript.messages.iter().map(|message| message.text()).collect()
}
