//! Tests of corrupt and foreign files.

use std::fs;

use provost_core::ErrorKind;
use provost_session::{OpenError, SqliteSessionOptions, SqliteSessionStore};
use provost_session::{SessionError, SessionStore};
use rusqlite::Connection;

use crate::{add, open, prefixed, texts};

fn open_error(path: &std::path::Path) -> OpenError {
    SqliteSessionStore::open(path, SqliteSessionOptions::default()).unwrap_err()
}

#[test]
fn a_file_that_is_no_database_is_refused_and_stays() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("notes.txt");
    let notes = "these are my notes, not a database\n".repeat(100);
    fs::write(&path, &notes).unwrap();
    let error = open_error(&path);
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert!(error.to_string().contains("notes.txt"), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), notes);
    let error = open_error(dir.path());
    assert!(matches!(error, OpenError::Storage { .. }), "{error}");
    let error = open_error(&path.join("below/a/file.db"));
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
}

#[tokio::test]
async fn tables_of_a_newer_program_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    open(&path).commit("s", 0, add(&["a"])).await.unwrap();
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch("UPDATE session_schema SET version = 7").unwrap();
    let error = open_error(&path);
    assert!(matches!(error, OpenError::SchemaTooNew { found: 7, known: 2, .. }), "{error}");
    assert_eq!(error.kind(), ErrorKind::Conflict);
    assert!(error.to_string().contains("use a newer program"), "{error}");
    raw.execute_batch("UPDATE session_schema SET version = 1").unwrap();
    assert_eq!(texts(&open(&path), "s").await, ["a"]);
}

#[tokio::test]
async fn tables_of_another_program_are_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("app.db");
    let raw = Connection::open(&path).unwrap();
    raw.execute_batch("CREATE TABLE Messages (mine TEXT); INSERT INTO Messages VALUES ('kept')")
        .unwrap();
    let error = open_error(&path);
    assert!(
        matches!(&error, OpenError::TableTaken { table, .. } if table == "messages"),
        "{error}"
    );
    let store = SqliteSessionStore::open(&path, prefixed("agent_")).unwrap();
    store.commit("s", 0, add(&["a"])).await.unwrap();
    let kept: String = raw.query_row("SELECT mine FROM Messages", [], |row| row.get(0)).unwrap();
    assert_eq!(kept, "kept");
    raw.execute_batch("CREATE TABLE x_session_schema (other TEXT)").unwrap();
    let error = SqliteSessionStore::open(&path, prefixed("x_")).unwrap_err();
    assert!(matches!(error, OpenError::TableTaken { .. }), "{error}");
}

/// Returns the error of a load after a statement has corrupted the session `s`.
async fn load_error_after(damage: &str) -> SessionError {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let store = open(&path);
    store.commit("s", 0, add(&["a", "b", "c"])).await.unwrap();
    store.commit("sound", 0, add(&["x"])).await.unwrap();
    Connection::open(&path).unwrap().execute_batch(damage).unwrap();
    assert_eq!(texts(&store, "sound").await, ["x"], "others can still be read");
    let error = store.load("s").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    assert!(store.delete("s").await.unwrap(), "what is damaged can be removed");
    error
}

#[tokio::test]
async fn a_damaged_session_says_where() {
    for (damage, expected) in [
        ("UPDATE messages SET body = '{\"role\"' WHERE session = 1 AND seq = 1", "message 1 is no"),
        ("DELETE FROM messages WHERE session = 1 AND seq = 1", "message 1 is missing"),
        ("DELETE FROM messages WHERE session = 1 AND seq = 2", "2 of its 3 messages"),
        ("UPDATE sessions SET messages = 2 WHERE id = 's'", "3 of its 2 messages"),
    ] {
        let error = load_error_after(damage).await;
        assert!(error.to_string().contains(expected), "{damage}: {error}");
    }
}

#[tokio::test]
async fn pages_that_were_overwritten_are_an_error_and_no_panic() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let store = open(&path);
    for number in 0..50 {
        store.commit(&format!("s{number}"), 0, add(&[&"text ".repeat(500)])).await.unwrap();
    }
    drop(store);
    let raw = Connection::open(&path).unwrap();
    raw.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(raw);
    let mut bytes = fs::read(&path).unwrap();
    // The first page remains intact, so that the file can be opened.
    for byte in bytes.iter_mut().skip(3 * 4096) {
        *byte = 0xa5;
    }
    fs::write(&path, bytes).unwrap();
    match SqliteSessionStore::open(&path, SqliteSessionOptions::default()) {
        Err(error) => assert_eq!(error.kind(), ErrorKind::Malformed, "{error}"),
        Ok(store) => {
            let error = store.load("s40").await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
            let error = store.commit("s40", 1, add(&["more"])).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        }
    }
}
