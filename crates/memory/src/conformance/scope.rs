//! Isolation of owners.

use provost_core::Env;

use super::sample::{add, owner, record, unit};
use crate::MemoryError;
use crate::job::Conversation;
use crate::memory::{MemorySource, NewMemory};
use crate::store::{
    ChangeSet, DeleteScope, ListRequest, MemoryChange, MemoryStore, RecordUpdate, SearchQuery,
};

/// No call for one owner reads or changes the memories or jobs of another.
///
/// # Panics
/// If the store violates the contract.
pub async fn owners_are_isolated(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let env = Env::simulated(11);
    let (anna, eve) = (owner("anna"), owner("eve"));
    let new = NewMemory::new("The safe code is 4711").source("shared", "m");
    let secret = record(&env, &anna, new, &[("safe", 1.0)]);
    let (id, memory) = (secret.memory.id, secret.memory.clone());
    store.apply(&anna, add([secret.clone()])).await?;
    let own = record(&env, &eve, NewMemory::new("Likes safes"), &[("safe", 1.0)]);
    store.apply(&eve, add([own])).await?;
    let search = SearchQuery {
        text: "safe code 4711".into(),
        vector: Some(unit(&[("safe", 1.0)])),
        limit: 100,
        ..SearchQuery::default()
    };
    let found = store.search(&eve, &search).await?;
    assert!(found.iter().all(|found| found.memory.owner == eve), "{found:?}");
    assert_eq!(store.get(&eve, id).await?, None);
    let page = ListRequest { include_superseded: true, ..ListRequest::default() };
    assert_eq!(store.list(&eve, &page).await?.memories.len(), 1);
    assert_eq!(store.count(&eve).await?, 1);
    let update = RecordUpdate {
        id,
        text: "changed".into(),
        vector: None,
        category: None,
        metadata: serde_json::Map::new(),
        sources: Vec::new(),
        at: env.now(),
    };
    let new = record(&env, &eve, NewMemory::new("changed"), &[]);
    for change in [
        MemoryChange::Update(Box::new(update)),
        MemoryChange::Supersede { old: id, new: Box::new(new) },
    ] {
        let rejected =
            store.apply(&eve, ChangeSet { changes: vec![change], finished_job: None }).await;
        assert!(matches!(rejected, Err(MemoryError::NotFound(_))), "{rejected:?}");
    }
    let foreign = store.apply(&eve, add([secret])).await;
    assert!(matches!(foreign, Err(MemoryError::Invalid(_))), "{foreign:?}");
    let source = MemorySource { session: "shared".into(), message: "m".into() };
    assert_eq!(store.delete(&eve, &DeleteScope::Memory(id)).await?, 0);
    assert_eq!(store.delete(&eve, &DeleteScope::Session("shared".into())).await?, 0);
    assert_eq!(store.delete(&eve, &DeleteScope::Message(source)).await?, 0);
    assert_eq!(
        store.delete(&eve, &DeleteScope::Everything).await?,
        1,
        "only the caller's memories"
    );
    assert_eq!(store.get(&anna, id).await?, Some(memory));
    foreign_jobs(store, &env).await
}

/// One owner cannot finish a job of another.
async fn foreign_jobs(store: &dyn MemoryStore, env: &Env) -> Result<(), MemoryError> {
    let (anna, eve) = (owner("anna"), owner("eve"));
    let messages = [std::sync::Arc::new(provost_core::Message::user("hello"))];
    store.enqueue(&anna, Conversation::new("talk", &messages), env.now()).await?;
    assert!(store.jobs(&eve).await?.is_empty());
    let claim = store.claim(env.now(), std::time::Duration::from_secs(60)).await?;
    let claim = claim.job.map(|job| job.claim);
    let rejected = store.apply(&eve, ChangeSet { changes: Vec::new(), finished_job: claim }).await;
    assert!(matches!(rejected, Err(MemoryError::ClaimLost(_))), "{rejected:?}");
    store.apply(&anna, ChangeSet { changes: Vec::new(), finished_job: claim }).await
}
