//! Tests of shared state in the session file.

use provost_agent::Agent;
use provost_core::StateChange;
use provost_model::{ScriptedModel, text};
use provost_session::SessionStore;
use provost_session::SqliteSessionStore;
use provost_session::shared_state::{StateOwners, StateStore, conformance};
use serde_json::json;

use crate::{add, open};

async fn topic(store: &SqliteSessionStore) -> bool {
    let owners = StateOwners { session: Some("s".into()), user: None };
    StateStore::load(store, &owners).await.unwrap().contains_key("session:topic")
}

#[tokio::test]
async fn it_does_what_every_store_of_shared_values_does() {
    let dir = tempfile::tempdir().unwrap();
    conformance::run(&open(&dir.path().join("s.db"))).await.unwrap();
}

#[tokio::test]
async fn values_are_there_after_the_file_was_closed() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    let agent = |store: SqliteSessionStore| {
        let model = ScriptedModel::from_fn(|_, _| text("ok"));
        let agent =
            Agent::builder("a", model).instructions("Speak {{ user.language | default('en') }}.");
        agent.session_store(store.clone()).shared_state(store).build().unwrap()
    };
    agent(open(&path)).run("hi").user("ada").state("user:language", "de").await.unwrap();
    let again = agent(open(&path));
    let ada = again.run("hi").user("ada").preview().await.unwrap();
    let bob = again.run("hi").user("bob").preview().await.unwrap();
    let system = |peek: provost_agent::ContextPreview| peek.system.unwrap().to_string();
    assert_eq!((system(ada), system(bob)), ("Speak de.".to_owned(), "Speak en.".to_owned()));
}

#[tokio::test]
async fn what_belongs_to_a_session_goes_with_it_however_it_goes() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir.path().join("s.db"));
    let owners = StateOwners { session: Some("s".into()), user: None };
    let changes = [StateChange { name: "session:topic".into(), value: Some(json!("tea")) }];
    for by_age in [false, true] {
        SessionStore::commit(&store, "s", 0, add(&["hi"])).await.unwrap();
        StateStore::commit(&store, &owners, &changes).await.unwrap();
        assert!(topic(&store).await);
        if by_age {
            let later = provost_core::Timestamp::from_millis(i64::MAX);
            assert_eq!(store.delete_inactive_since(later).await.unwrap(), 1);
        } else {
            assert!(store.delete("s").await.unwrap());
        }
        assert!(!topic(&store).await, "by age: {by_age}");
    }
}

/// A file of schema version 1 has no table for values. Opening it creates the table.
#[tokio::test]
async fn a_file_of_the_first_version_is_taken_along() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s.db");
    drop(open(&path));
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute_batch(
        "DROP TRIGGER session_values_go; DROP TABLE shared_state; UPDATE session_schema SET version = 1",
    )
    .unwrap();
    drop(raw);
    conformance::run(&open(&path)).await.unwrap();
    let raw = rusqlite::Connection::open(&path).unwrap();
    let version: i64 =
        raw.query_row("SELECT version FROM session_schema", [], |row| row.get(0)).unwrap();
    assert_eq!(version, 2);
}
