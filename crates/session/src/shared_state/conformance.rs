//! Conformance checks for implementations of [`StateStore`].

use provost_core::{StateChange, StateScope};
use serde_json::{Map, Value, json};

use super::{StateError, StateOwners, StateStore};

/// Creates the owners of a run.
fn owners(session: Option<&str>, user: Option<&str>) -> StateOwners {
    StateOwners { session: session.map(Into::into), user: user.map(Into::into) }
}

/// Creates a change that sets a value.
fn set(name: &str, value: Value) -> StateChange {
    StateChange { name: name.to_owned(), value: Some(value) }
}

/// Creates a change that removes a value.
fn removed(name: &str) -> StateChange {
    StateChange { name: name.to_owned(), value: None }
}

/// Loads the values of the owners as an object that is sorted by name.
async fn load(store: &dyn StateStore, owners: &StateOwners) -> Result<Value, StateError> {
    let mut values: Vec<_> = store.load(owners).await?.into_iter().collect();
    values.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(Value::Object(values.into_iter().collect::<Map<_, _>>()))
}

/// Runs all checks on an empty store. Returns the first unexpected error of the store.
///
/// # Panics
/// If the store violates the contract.
pub async fn run(store: &dyn StateStore) -> Result<(), StateError> {
    let ada = owners(Some("one"), Some("ada"));
    let changes = [
        set("session:topic", json!("tea")),
        set("user:language", json!({"first": "en"})),
        set("user:a:b", json!(1)),
        set("app:notice", json!([1, 2])),
    ];
    assert_eq!(load(store, &ada).await?, json!({}));
    store.commit(&ada, &changes).await?;
    let all = json!({
        "app:notice": [1, 2], "session:topic": "tea", "user:a:b": 1,
        "user:language": {"first": "en"},
    });
    assert_eq!(load(store, &ada).await?, all);

    // Each owner sees its own values and those of the application.
    assert_eq!(load(store, &owners(None, None)).await?, json!({"app:notice": [1, 2]}));
    let bob = owners(Some("one"), Some("bob"));
    assert_eq!(load(store, &bob).await?, json!({"app:notice": [1, 2], "session:topic": "tea"}));
    // A session and a user with the same name are different owners.
    let odd = owners(Some("ada"), Some("one"));
    assert_eq!(load(store, &odd).await?, json!({"app:notice": [1, 2]}));

    // Each name changes separately. Changes without an owner are ignored.
    store.commit(&bob, &[set("user:language", json!("de")), removed("session:topic")]).await?;
    store.commit(&owners(None, None), &[set("user:x", json!(1)), set("app:y", json!(2))]).await?;
    let all = json!({
        "app:notice": [1, 2], "app:y": 2, "user:a:b": 1, "user:language": {"first": "en"},
    });
    assert_eq!(load(store, &ada).await?, all);
    store.commit(&ada, &[set("user:a:b", json!("é\u{0}")), removed("user:none")]).await?;
    assert_eq!(load(store, &ada).await?["user:a:b"], json!("é\u{0}"));

    assert_eq!(store.delete_owner(StateScope::User, "ada").await?, 2);
    assert_eq!(store.delete_owner(StateScope::User, "ada").await?, 0);
    assert_eq!(load(store, &ada).await?, json!({"app:notice": [1, 2], "app:y": 2}));
    assert_eq!(load(store, &bob).await?["user:language"], json!("de"));
    Ok(())
}
