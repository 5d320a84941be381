//! Conformance checks for implementations of [`SessionStore`].
//!
//! A check panics if the store violates the contract, and returns an error if the store fails unexpectedly.

mod sample;

use std::sync::Arc;

use provost_core::Message;

use self::sample::sample_messages;
use crate::{SESSION_ID_BYTES_MAX, Session, SessionChange, SessionError, SessionStore, Transcript};

/// Number of concurrent writers.
const WRITERS: usize = 8;
/// Number of messages per writer.
const WRITES: usize = 5;
/// Number of sessions in the check with many sessions.
const SESSIONS: usize = 100;

/// Runs all checks except [`listing_is_newest_first`], which needs a clock. Each call of `open` must return a store
/// over the same data, which is empty at first.
///
/// # Panics
/// If the store violates the contract.
pub async fn all(open: impl Fn() -> Arc<dyn SessionStore>) -> Result<(), SessionError> {
    let store = open();
    lifecycle(&store).await?;
    limits_pop_and_clear(&store).await?;
    revisions_and_conflicts(&*store).await?;
    changes_are_atomic(&*store).await?;
    unusual_ids(&store).await?;
    sessions_are_isolated(&store).await?;
    everything_round_trips(&store, &open()).await?;
    reopened(&open).await?;
    many_sessions(&store).await?;
    concurrent_writers(&store).await
}

/// Sessions can be created, loaded and deleted.
///
/// # Panics
/// If the store violates the contract.
pub async fn lifecycle(store: &Arc<dyn SessionStore>) -> Result<(), SessionError> {
    let session = Session::new(Arc::clone(store), "lifecycle");
    assert_eq!(store.load("lifecycle").await?, None, "missing is none");
    assert!(!session.exists().await?);
    assert!(!session.delete().await?, "deleting a missing session is a no-op");
    assert!(session.messages(None).await?.is_empty());
    session.create().await?;
    assert!(session.exists().await?, "an empty session exists");
    let again = session.create().await;
    assert!(
        matches!(again, Err(SessionError::Conflict { .. })),
        "creating twice is a conflict: {again:?}"
    );
    session.add([Message::user("hi")]).await?;
    assert_eq!(session.messages(None).await?.len(), 1);
    assert!(session.delete().await?);
    assert!(!session.exists().await?);
    assert!(!session.delete().await?);
    session.create().await?;
    assert!(session.messages(None).await?.is_empty(), "a recreated session is empty");
    Ok(())
}

/// Limits return the newest messages in order, `pop` removes the newest message, and `clear` removes all.
///
/// # Panics
/// If the store violates the contract.
pub async fn limits_pop_and_clear(store: &Arc<dyn SessionStore>) -> Result<(), SessionError> {
    let session = Session::new(Arc::clone(store), "limits");
    assert_eq!(session.pop().await?, None);
    assert!(!session.exists().await?, "popping nothing creates nothing");
    session.add(["a", "b", "c"].into_iter().map(Message::user)).await?;
    session.add([]).await?;
    for (limit, expected) in
        [(None, "abc"), (Some(0), ""), (Some(1), "c"), (Some(2), "bc"), (Some(99), "abc")]
    {
        let texts: String =
            session.messages(limit).await?.iter().map(|message| message.text()).collect();
        assert_eq!(texts, expected, "limit {limit:?}");
    }
    assert_eq!(session.pop().await?, Some(Message::user("c")));
    assert_eq!(session.pop().await?, Some(Message::user("b")));
    session.add([Message::user("d")]).await?;
    assert_eq!(session.pop().await?, Some(Message::user("d")));
    assert_eq!(session.pop().await?, Some(Message::user("a")));
    assert_eq!(session.pop().await?, None);
    session.add(["x", "y"].into_iter().map(Message::user)).await?;
    session.clear().await?;
    assert!(session.messages(None).await?.is_empty());
    assert!(session.exists().await?, "a cleared session stays");
    Ok(())
}

/// Each commit raises the revision by one. A stale base is a conflict and changes nothing.
///
/// # Panics
/// If the store violates the contract.
pub async fn revisions_and_conflicts(store: &dyn SessionStore) -> Result<(), SessionError> {
    let id = "revisions";
    for base in 0..4 {
        let revision = store.commit(id, base, add(&["m"])).await?;
        assert_eq!(revision, base + 1);
    }
    let before = load(store, id).await?;
    for base in [0, 1, 3, 5, u64::MAX] {
        let refused = store.commit(id, base, add(&["lost"])).await;
        assert!(
            matches!(&refused, Err(SessionError::Conflict { expected, found: 4, .. }) if *expected == base),
            "base {base}: {refused:?}"
        );
    }
    assert_eq!(load(store, id).await?, before);
    let missing = store.commit("revisions-none", 3, add(&["lost"])).await;
    assert!(matches!(missing, Err(SessionError::Conflict { found: 0, .. })), "{missing:?}");
    assert_eq!(store.load("revisions-none").await?, None);
    Ok(())
}

/// A removal and an addition are one change. An empty change raises the revision. A removal of more messages than
/// exist removes all.
///
/// # Panics
/// If the store violates the contract.
pub async fn changes_are_atomic(store: &dyn SessionStore) -> Result<(), SessionError> {
    let id = "whole";
    store.commit(id, 0, add(&["a", "b", "c"])).await?;
    let change = SessionChange { pop: 2, ..add(&["summary", "b", "c"]) };
    store.commit(id, 1, change).await?;
    assert_eq!(texts(&load(store, id).await?), ["a", "summary", "b", "c"]);
    assert_eq!(store.commit(id, 2, add(&[])).await?, 3);
    assert_eq!(load(store, id).await?.messages.len(), 4);
    let change = SessionChange { pop: usize::MAX, ..add(&["z"]) };
    store.commit(id, 3, change).await?;
    assert_eq!(texts(&load(store, id).await?), ["z"]);
    // Enough removals to trigger the cleanup of a store that keeps removed messages.
    for base in 4..204 {
        let change = SessionChange { pop: usize::from(base % 8 != 0), ..add(&["y"]) };
        assert_eq!(store.commit(id, base, change).await?, base + 1);
    }
    let after = load(store, id).await?;
    assert_eq!((after.revision, after.messages.len()), (204, 26));
    Ok(())
}

/// Ids may contain any characters. Too long ids are rejected.
///
/// # Panics
/// If the store violates the contract.
pub async fn unusual_ids(store: &Arc<dyn SessionStore>) -> Result<(), SessionError> {
    let long = "i".repeat(SESSION_ID_BYTES_MAX);
    let long_unicode = "記".repeat(SESSION_ID_BYTES_MAX / 3);
    let ids = [
        "",
        " ",
        ".",
        "..",
        "../up",
        "/root",
        "a/b",
        "a\\b",
        "nul\0byte",
        "line\nbreak",
        "Case",
        "case",
        "CASE",
        "con",
        "%41",
        "A",
        "grüße 👋🏽",
        "日本語",
        &long,
        &long_unicode,
    ];
    for id in ids {
        let session = Session::new(Arc::clone(store), id);
        session.add([Message::user(format!("of {id}"))]).await?;
    }
    let listed = store.list().await?;
    for id in ids {
        let transcript = load(&**store, id).await?;
        assert_eq!(texts(&transcript), [format!("of {id}")]);
        let info = listed.iter().find(|info| info.id == id);
        assert_eq!(info.map(|info| info.messages), Some(1), "listing of {id:?}");
    }
    let too_long = "i".repeat(SESSION_ID_BYTES_MAX + 1);
    assert!(matches!(store.load(&too_long).await, Err(SessionError::Id { .. })));
    assert!(matches!(
        store.commit(&too_long, 0, SessionChange::default()).await,
        Err(SessionError::Id { .. })
    ));
    assert!(matches!(store.delete(&too_long).await, Err(SessionError::Id { .. })));
    Ok(())
}

/// A change or a deletion affects one session only.
///
/// # Panics
/// If the store violates the contract.
pub async fn sessions_are_isolated(store: &Arc<dyn SessionStore>) -> Result<(), SessionError> {
    let [one, two] = ["isolated", "isolated-2"].map(|id| Session::new(Arc::clone(store), id));
    one.add([Message::user("1")]).await?;
    two.add([Message::user("2")]).await?;
    one.pop().await?;
    assert_eq!(two.messages(None).await?.len(), 1);
    one.delete().await?;
    assert_eq!(two.messages(None).await?.len(), 1);
    let listed = store.list().await?;
    assert!(!listed.iter().any(|info| info.id == "isolated"));
    assert!(listed.iter().any(|info| info.id == "isolated-2"));
    Ok(())
}

/// All roles, parts and fields are read exactly as written, also by a second handle of the store.
///
/// # Panics
/// If the store violates the contract.
pub async fn everything_round_trips(
    store: &Arc<dyn SessionStore>,
    again: &Arc<dyn SessionStore>,
) -> Result<(), SessionError> {
    let messages = sample_messages();
    let session = Session::new(Arc::clone(store), "everything");
    session.add(messages.clone()).await?;
    let expected: Vec<_> = messages.into_iter().map(Arc::new).collect();
    assert_eq!(session.messages(None).await?, expected);
    let session = Session::new(Arc::clone(again), "everything");
    assert_eq!(session.messages(None).await?, expected);
    Ok(())
}

/// A reopened store contains the committed revisions.
///
/// # Panics
/// If the store violates the contract.
pub async fn reopened(open: &impl Fn() -> Arc<dyn SessionStore>) -> Result<(), SessionError> {
    open().commit("reopened", 0, add(&["a"])).await?;
    assert_eq!(open().commit("reopened", 1, add(&["b"])).await?, 2);
    let transcript = load(&*open(), "reopened").await?;
    assert_eq!(texts(&transcript), ["a", "b"]);
    Ok(())
}

/// Many sessions do not mix their messages.
///
/// # Panics
/// If the store violates the contract.
pub async fn many_sessions(store: &Arc<dyn SessionStore>) -> Result<(), SessionError> {
    for number in 0..SESSIONS {
        let id = format!("many-{number}");
        store.commit(&id, 0, add(&[&id])).await?;
    }
    let listed = store.list().await?;
    let count = listed.iter().filter(|info| info.id.starts_with("many-")).count();
    assert_eq!(count, SESSIONS);
    for number in 0..SESSIONS {
        let id = format!("many-{number}");
        assert_eq!(texts(&load(&**store, &id).await?), [id]);
    }
    Ok(())
}

/// Concurrent writers lose no messages, and the messages of each writer stay in order.
///
/// # Panics
/// If the store violates the contract.
pub async fn concurrent_writers(store: &Arc<dyn SessionStore>) -> Result<(), SessionError> {
    let writers = (0..WRITERS).map(|writer| {
        let session = Session::new(Arc::clone(store), "concurrent");
        tokio::spawn(async move {
            for write in 0..WRITES {
                session.add([Message::user(format!("{writer}.{write}"))]).await?;
            }
            Ok::<_, SessionError>(())
        })
    });
    for done in futures::future::join_all(writers).await {
        assert!(matches!(&done, Ok(Ok(()))), "a writer failed: {done:?}");
    }
    let transcript = load(&**store, "concurrent").await?;
    assert_eq!(transcript.revision, (WRITERS * WRITES) as u64);
    let texts = texts(&transcript);
    assert_eq!(texts.len(), WRITERS * WRITES, "{texts:?}");
    for writer in 0..WRITERS {
        let own: Vec<_> =
            texts.iter().filter(|text| text.starts_with(&format!("{writer}."))).collect();
        assert!(own.len() == WRITES && own.is_sorted(), "writer {writer}: {own:?}");
    }
    Ok(())
}

/// The most recently changed session is listed first. `tick` advances the clock of the store.
///
/// # Panics
/// If the store violates the contract.
pub async fn listing_is_newest_first(
    store: &dyn SessionStore,
    tick: impl Fn(),
) -> Result<(), SessionError> {
    for id in ["one", "two", "three"] {
        store.commit(id, 0, add(&["a"])).await?;
        tick();
    }
    store.commit("one", 1, add(&["b"])).await?;
    let listed = store.list().await?;
    let found: Vec<_> = listed.iter().map(|info| (info.id.as_str(), info.messages)).collect();
    assert_eq!(found, [("one", 2), ("three", 1), ("two", 1)]);
    assert!(listed[0].updated_at > listed[1].updated_at);
    Ok(())
}

/// Creates a change that adds user messages.
fn add(texts: &[&str]) -> SessionChange {
    let add = texts.iter().map(|text| Arc::new(Message::user(*text))).collect();
    SessionChange { pop: 0, add }
}

/// Loads a session that must exist.
async fn load(store: &dyn SessionStore, id: &str) -> Result<Transcript, SessionError> {
    let loaded = store.load(id).await?;
    assert!(loaded.is_some(), "session {id:?} is missing");
    Ok(loaded.unwrap_or_default())
}

/// Returns the texts of the messages, oldest first.
fn texts(transcript: &Transcript) -> Vec<String> {
    transcript.messages.iter().map(|message| message.text()).collect()
}
