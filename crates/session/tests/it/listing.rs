//! Tests of pages, metadata, forks and deletion.

use std::time::Duration;

use provost_core::Env;
use provost_session::{SessionCursor, SqliteSessionOptions, SqliteSessionStore};
use provost_session::{SessionError, SessionStore};
use serde_json::{Map, Value, json};

use crate::{add, open, texts};

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        other => panic!("{other}"),
    }
}

#[tokio::test]
async fn pages_give_every_session_once() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::simulated(1);
    let options = SqliteSessionOptions { env: env.clone(), ..Default::default() };
    let store = SqliteSessionStore::open(dir.path().join("s.db"), options).unwrap();
    // Several sessions have the same time.
    for number in 0..25 {
        store.commit(&format!("s{number:02}"), 0, add(&["m"])).await.unwrap();
        if number % 4 == 3 {
            env.advance(Duration::from_secs(1));
        }
    }
    let all = store.list().await.unwrap();
    assert_eq!((all.len(), all[0].id.as_str(), all[1].id.as_str()), (25, "s24", "s20"));
    for limit in [1, 4, 7, 25, 100] {
        let (mut seen, mut after) = (Vec::new(), None);
        loop {
            let page = store.page(after.as_ref(), limit).await.unwrap();
            assert!(!page.sessions.is_empty() && page.sessions.len() <= limit);
            seen.extend(page.sessions);
            let Some(next) = page.next else { break };
            // A client can serialize a cursor.
            let text = serde_json::to_string(&next).unwrap();
            after = Some(serde_json::from_str::<SessionCursor>(&text).unwrap());
        }
        assert_eq!(seen, all, "limit {limit}");
    }
}

#[tokio::test]
async fn a_page_is_bounded_and_an_empty_one_has_no_next() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let page = store.page(None, usize::MAX).await.unwrap();
    assert!(page.sessions.is_empty() && page.next.is_none());
    store.commit("a", 0, add(&[])).await.unwrap();
    let page = store.page(None, 0).await.unwrap();
    assert_eq!((page.sessions.len(), page.next), (1, None), "a limit of 0 counts as 1");
}

#[tokio::test]
async fn metadata_stays_with_its_session_and_disturbs_no_run() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let owner = object(json!({"owner": "Ada 👋", "tags": [1, null]}));
    assert!(!store.set_metadata("s", &owner).await.unwrap());
    assert_eq!(store.metadata("s").await.unwrap(), None);
    store.commit("s", 0, add(&["a"])).await.unwrap();
    assert_eq!(store.metadata("s").await.unwrap(), Some(Map::new()));
    assert!(store.set_metadata("s", &owner).await.unwrap());
    assert_eq!(store.commit("s", 1, add(&["b"])).await.unwrap(), 2, "no conflict");
    assert_eq!(store.metadata("s").await.unwrap(), Some(owner.clone()));
    let large = object(json!({"text": "x".repeat(64 * 1024)}));
    let error = store.set_metadata("s", &large).await.unwrap_err();
    assert!(error.to_string().contains("use at most 65536"), "{error}");
    assert_eq!(store.metadata("s").await.unwrap(), Some(owner));
    store.delete("s").await.unwrap();
    assert_eq!(store.metadata("s").await.unwrap(), None);
}

#[tokio::test]
async fn a_fork_goes_its_own_way() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    store.commit("s", 0, add(&["a", "b"])).await.unwrap();
    store.commit("s", 1, add(&["c"])).await.unwrap();
    store.set_metadata("s", &object(json!({"owner": "Ada"}))).await.unwrap();
    assert!(store.fork("s", "all", None).await.unwrap());
    assert!(store.fork("s", "some", Some(2)).await.unwrap());
    assert!(store.fork("s", "none", Some(0)).await.unwrap());
    assert!(!store.fork("missing", "x", None).await.unwrap());
    let taken = store.fork("s", "some", None).await.unwrap_err();
    assert!(matches!(taken, SessionError::Conflict { .. }), "{taken}");
    assert_eq!(store.commit("some", 1, add(&["d"])).await.unwrap(), 2);
    assert_eq!(texts(&store, "some").await, ["a", "b", "d"]);
    assert_eq!(texts(&store, "all").await, ["a", "b", "c"]);
    assert!(texts(&store, "none").await.is_empty());
    assert_eq!(store.metadata("some").await.unwrap().unwrap()["owner"], "Ada");
    store.delete("s").await.unwrap();
    assert_eq!(texts(&store, "all").await, ["a", "b", "c"]);
}

#[tokio::test]
async fn what_was_not_used_is_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let env = Env::simulated(1);
    let options = SqliteSessionOptions { env: env.clone(), ..Default::default() };
    let store = SqliteSessionStore::open(dir.path().join("s.db"), options).unwrap();
    // The deletion needs more than one transaction.
    for number in 0..450 {
        store.commit(&format!("old-{number}"), 0, add(&[])).await.unwrap();
    }
    env.advance(Duration::from_secs(60));
    store.commit("old-7", 1, add(&["used again"])).await.unwrap();
    store.commit("new", 0, add(&["m"])).await.unwrap();
    assert_eq!(store.delete_inactive_since(env.now()).await.unwrap(), 449);
    assert_eq!(store.delete_inactive_since(env.now()).await.unwrap(), 0);
    let left: Vec<_> = store.list().await.unwrap().into_iter().map(|info| info.id).collect();
    assert_eq!(left, ["new", "old-7"]);
}
