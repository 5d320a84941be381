//! Sessions in SQLite through their public door. Tests of a numbered statement carry its number.

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
use provost_session::{SessionChange, SessionStore, SqliteSessions, SqliteSessionsOptions};

fn open(path: &Path) -> SqliteSessions {
    SqliteSessions::open(path, SqliteSessionsOptions::default()).unwrap()
}

fn prefixed(prefix: &str) -> SqliteSessionsOptions {
    SqliteSessionsOptions { table_prefix: prefix.to_owned(), ..Default::default() }
}

/// A change that adds texts.
fn add(texts: &[&str]) -> SessionChange {
    let add = texts.iter().map(|text| Arc::new(Message::user(*text))).collect();
    SessionChange { pop: 0, add }
}

/// The texts of a session that exists.
async fn texts(store: &dyn SessionStore, id: &str) -> Vec<String> {
    let transcript = store.load(id).await.unwrap().unwrap();
    transcript.messages.iter().map(|message| message.text()).collect()
}
