//! What every store of shared values does.

use provost_core::{StateChange, StateScope};
use serde_json::{Map, Value, json};

use super::{StateError, StateOwners, StateStore};

fn owners(session: Option<&str>, user: Option<&str>) -> StateOwners {
    StateOwners { session: session.map(Into::into), user: user.map(Into::into) }
}

fn set(name: &str, value: Value) -> StateChange {
    StateChange { name: name.to_owned(), value: Some(value) }
}

fn gone(name: &str) -> StateChange {
    StateChange { name: name.to_owned(), value: None }
}

async fn seen(store: &dyn StateStore, owners: &StateOwners) -> Result<Value, StateError> {
    let mut values: Vec<_> = store.load(owners).await?.into_iter().collect();
    values.sort_by(|(one, _), (other, _)| one.cmp(other));
    Ok(Value::Object(values.into_iter().collect::<Map<_, _>>()))
}

/// Runs the suite on a store with nothing in it; gives the error of a store that gave one.
///
/// # Panics
/// If the store does not do what every store does.
pub async fn run(store: &dyn StateStore) -> Result<(), StateError> {
    let ada = owners(Some("one"), Some("ada"));
    let changes = [
        set("session:topic", json!("tea")),
        set("user:language", json!({"first": "en"})),
        set("user:a:b", json!(1)),
        set("app:notice", json!([1, 2])),
    ];
    assert_eq!(seen(store, &ada).await?, json!({}));
    store.commit(&ada, &changes).await?;
    let all = json!({
        "app:notice": [1, 2], "session:topic": "tea", "user:a:b": 1,
        "user:language": {"first": "en"},
    });
    assert_eq!(seen(store, &ada).await?, all);

    // Each owner sees what is its own, and what is everybody's.
    assert_eq!(seen(store, &owners(None, None)).await?, json!({"app:notice": [1, 2]}));
    let bob = owners(Some("one"), Some("bob"));
    assert_eq!(seen(store, &bob).await?, json!({"app:notice": [1, 2], "session:topic": "tea"}));
    // A session and a user of the same name are not the same owner.
    let odd = owners(Some("ada"), Some("one"));
    assert_eq!(seen(store, &odd).await?, json!({"app:notice": [1, 2]}));

    // Names are changed one by one; what has no owner is left out.
    store.commit(&bob, &[set("user:language", json!("de")), gone("session:topic")]).await?;
    store.commit(&owners(None, None), &[set("user:x", json!(1)), set("app:y", json!(2))]).await?;
    let all = json!({
        "app:notice": [1, 2], "app:y": 2, "user:a:b": 1, "user:language": {"first": "en"},
    });
    assert_eq!(seen(store, &ada).await?, all);
    store.commit(&ada, &[set("user:a:b", json!("é\u{0}")), gone("user:none")]).await?;
    assert_eq!(seen(store, &ada).await?["user:a:b"], json!("é\u{0}"));

    assert_eq!(store.forget(StateScope::User, "ada").await?, 2);
    assert_eq!(store.forget(StateScope::User, "ada").await?, 0);
    assert_eq!(seen(store, &ada).await?, json!({"app:notice": [1, 2], "app:y": 2}));
    assert_eq!(seen(store, &bob).await?["user:language"], json!("de"));
    Ok(())
}
