//! Conformance checks and tests of the SQLite store.

use std::future::Future as _;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Waker};
use std::time::Duration;

use provost_core::{Env, ErrorKind, Message, Role, Timestamp};
use provost_session::{OpenError, SqliteSessionOptions, SqliteSessionStore};
use provost_session::{Session, SessionError, SessionStore, conformance};
use rusqlite::Connection;

use crate::{add, open, prefixed, texts};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn s219_s220_sqlite_sessions_conform() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/er/sessions.db");
    conformance::all(|| Arc::new(open(&path))).await.unwrap();
}

#[tokio::test]
async fn listing_is_newest_first() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::simulated(1);
    let options = SqliteSessionOptions { env: env.clone(), ..Default::default() };
    let store = SqliteSessionStore::open(dir.path().join("s.db"), options).unwrap();
    conformance::listing_is_newest_first(&store, || env.advance(Duration::from_secs(1)))
        .await
        .unwrap();
}

#[tokio::test]
async fn s220_creating_twice_fails_and_deleting_touches_one_session() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    store.commit("", 0, add(&["of the empty id"])).await.unwrap();
    let again = store.commit("", 0, add(&["lost"])).await.unwrap_err();
    assert!(matches!(&again, SessionError::Conflict { found: 1, .. }), "{again}");
    assert_eq!(again.kind(), ErrorKind::Conflict);
    store.commit("other", 0, add(&[])).await.unwrap();
    assert!(!store.delete("missing").await.unwrap());
    assert!(store.delete("other").await.unwrap());
    assert_eq!(texts(&store, "").await, ["of the empty id"]);
    // A recreated session contains nothing of the deleted one.
    store.delete("").await.unwrap();
    store.commit("", 0, add(&[])).await.unwrap();
    assert!(texts(&store, "").await.is_empty());
}

#[tokio::test]
async fn s220_large_texts_models_times_and_summaries_round_trip() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let mut answer = Message::new(
        Role::Assistant,
        Message::user("こんにちは 👋🏽 \u{0}".repeat(50_000)).parts,
        Timestamp::from_millis(1_234_567_890_123),
    );
    answer.model = Some("m-1".into());
    assert!(answer.text().len() > 1_200_000);
    let all = [Message::summary("before"), answer];
    let session = Session::new(Arc::new(open(&path)), "s");
    session.add(all.clone()).await.unwrap();
    let session = Session::new(Arc::new(open(&path)), "s");
    let stored: Vec<Message> =
        session.messages(None).await.unwrap().iter().map(|m| Message::clone(m)).collect();
    assert_eq!(stored, all);
}

/// A change whose caller has dropped the future is not written.
#[tokio::test]
async fn s220_a_change_that_nobody_waits_for_when_its_turn_comes_is_not_made() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let store = open(&path);
    store.commit("s", 0, add(&["a"])).await.unwrap();
    // Another connection holds the write lock, so the writer waits with the first change.
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let (first, dropped) = (store.clone(), store.clone());
    let first = tokio::spawn(async move { first.set_metadata("s", &Default::default()).await });
    tokio::task::yield_now().await;
    {
        let mut delete = pin!(dropped.delete("s"));
        let polled = delete.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "{polled:?}");
    }
    other.execute_batch("COMMIT").unwrap();
    assert!(first.await.unwrap().unwrap());
    assert_eq!(store.commit("s", 1, add(&["b"])).await.unwrap(), 2);
    assert_eq!(texts(&store, "s").await, ["a", "b"], "the delete did not happen");
}

#[tokio::test]
async fn s220_a_store_that_was_opened_again_appends() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    for (base, text) in (0..).zip(["a", "b", "c"]) {
        let store = open(&path);
        assert_eq!(store.commit("s", base, add(&[text])).await.unwrap(), base + 1);
    }
    assert_eq!(texts(&open(&path), "s").await, ["a", "b", "c"]);
}

#[tokio::test]
async fn s221_a_prefix_isolates_two_stores_in_one_database() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let stores = ["", "a_", "b_"].map(|p| SqliteSessionStore::open(&path, prefixed(p)).unwrap());
    for (store, text) in stores.iter().zip(["none", "of a", "of b"]) {
        store.commit("s", 0, add(&[text])).await.unwrap();
    }
    stores[1].delete("s").await.unwrap();
    assert_eq!(texts(&stores[0], "s").await, ["none"]);
    assert!(stores[1].list().await.unwrap().is_empty());
    assert_eq!(texts(&stores[2], "s").await, ["of b"]);
    for prefix in ["A", "1a", "_a", "a-b", "a b", "x; DROP TABLE sessions", "sqlite_", "é"] {
        let error = SqliteSessionStore::open(&path, prefixed(prefix)).unwrap_err();
        assert!(matches!(error, OpenError::InvalidPrefix { .. }), "{prefix}: {error}");
        assert_eq!(error.kind(), ErrorKind::Invalid);
    }
    assert!(SqliteSessionStore::open(&path, prefixed(&"a".repeat(33))).is_err());
}

#[tokio::test]
async fn s221_limit_zero_gives_none_and_no_limit_gives_all() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    store.commit("s", 0, add(&["a", "b", "c"])).await.unwrap();
    let session = Session::new(Arc::new(store.clone()), "s");
    for (limit, expected) in [(Some(0), 0), (Some(2), 2), (Some(99), 3), (None, 3)] {
        assert_eq!(session.messages(limit).await.unwrap().len(), expected, "{limit:?}");
        let last = store.load_last("s", limit.unwrap_or(usize::MAX)).await.unwrap().unwrap();
        assert_eq!((last.messages.len(), last.revision), (expected, 1), "{limit:?}");
    }
    let last = store.load_last("s", 2).await.unwrap().unwrap();
    let texts: Vec<_> = last.messages.iter().map(|message| message.text()).collect();
    assert_eq!(texts, ["b", "c"]);
    assert_eq!(store.load_last("missing", 2).await.unwrap(), None);
}

#[tokio::test]
async fn a_writer_of_another_process_is_seen_and_a_stale_one_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let (one, two) = (open(&path), open(&path));
    one.commit("s", 0, add(&["a"])).await.unwrap();
    assert_eq!(two.commit("s", 1, add(&["b"])).await.unwrap(), 2);
    let refused = one.commit("s", 1, add(&["lost"])).await.unwrap_err();
    assert!(matches!(&refused, SessionError::Conflict { expected: 1, found: 2, .. }), "{refused}");
    assert_eq!(texts(&one, "s").await, ["a", "b"]);
}

#[tokio::test]
async fn a_file_that_somebody_holds_for_too_long_is_unavailable() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let options = SqliteSessionOptions { busy_timeout: Duration::ZERO, ..Default::default() };
    let store = SqliteSessionStore::open(&path, options).unwrap();
    store.commit("s", 0, add(&["a"])).await.unwrap();
    let other = Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let error = store.commit("s", 1, add(&["b"])).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(texts(&store, "s").await, ["a"], "reading goes on");
    drop(other);
    assert_eq!(store.commit("s", 1, add(&["b"])).await.unwrap(), 2);
}

#[cfg(unix)]
#[tokio::test]
async fn others_cannot_read_what_is_kept() {
    use std::os::unix::fs::PermissionsExt as _;

    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("new/s.db");
    open(&path).commit("s", 0, add(&["secret"])).await.unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&path), 0o600);
    assert_eq!(mode(path.parent().unwrap()), 0o700);
    for file in path.parent().unwrap().read_dir().unwrap() {
        assert_eq!(mode(&file.unwrap().path()) & 0o077, 0);
    }
}

#[tokio::test]
async fn what_is_deleted_is_wiped_from_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let store = open(&path);
    store.commit("s", 0, add(&[&"wipe me".repeat(2000)])).await.unwrap();
    store.delete("s").await.unwrap();
    let checkpoint = Connection::open(&path).unwrap();
    checkpoint.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let bytes = std::fs::read(&path).unwrap();
    assert!(!bytes.windows(7).any(|window| window == b"wipe me"));
}
