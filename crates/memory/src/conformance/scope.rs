//! No way leads from one owner to another.

use provost_core::Env;

use super::sample::{add, entry, owner, unit};
use crate::MemoryError;
use crate::job::Conversation;
use crate::memory::{NewMemory, Source};
use crate::store::{Batch, Change, Forget, MemoryStore, Page, Query, Update};

/// What one owner has, another can neither see nor change, whichever call is used.
///
/// # Panics
/// If the store is wrong.
pub async fn owners_never_meet(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let env = Env::simulated(11);
    let (anna, eve) = (owner("anna"), owner("eve"));
    let new = NewMemory::new("The safe code is 4711").source("shared", "m");
    let secret = entry(&env, &anna, new, &[("safe", 1.0)]);
    let (id, memory) = (secret.memory.id, secret.memory.clone());
    store.apply(&anna, add([secret.clone()])).await?;
    let own = entry(&env, &eve, NewMemory::new("Likes safes"), &[("safe", 1.0)]);
    store.apply(&eve, add([own])).await?;
    let search = Query {
        text: "safe code 4711".into(),
        vector: Some(unit(&[("safe", 1.0)])),
        limit: 100,
        ..Query::default()
    };
    let found = store.search(&eve, &search).await?;
    assert!(found.iter().all(|found| found.memory.owner == eve), "{found:?}");
    assert_eq!(store.get(&eve, id).await?, None);
    let page = Page { history: true, ..Page::default() };
    assert_eq!(store.list(&eve, &page).await?.memories.len(), 1);
    assert_eq!(store.count(&eve).await?, 1);
    let update = Update {
        id,
        text: "changed".into(),
        vector: None,
        category: None,
        metadata: serde_json::Map::new(),
        sources: Vec::new(),
        at: env.now(),
    };
    let new = entry(&env, &eve, NewMemory::new("changed"), &[]);
    for change in
        [Change::Update(Box::new(update)), Change::Supersede { old: id, new: Box::new(new) }]
    {
        let refused = store.apply(&eve, Batch { changes: vec![change], done: None }).await;
        assert!(matches!(refused, Err(MemoryError::NotFound(_))), "{refused:?}");
    }
    let smuggled = store.apply(&eve, add([secret])).await;
    assert!(matches!(smuggled, Err(MemoryError::Invalid(_))), "{smuggled:?}");
    let source = Source { session: "shared".into(), message: "m".into() };
    assert_eq!(store.forget(&eve, &Forget::Memory(id)).await?, 0);
    assert_eq!(store.forget(&eve, &Forget::Session("shared".into())).await?, 0);
    assert_eq!(store.forget(&eve, &Forget::Message(source)).await?, 0);
    assert_eq!(store.forget(&eve, &Forget::Everything).await?, 1, "only her own");
    assert_eq!(store.get(&anna, id).await?, Some(memory));
    foreign_jobs(store, &env).await
}

/// A job of one owner cannot be ended as another.
async fn foreign_jobs(store: &dyn MemoryStore, env: &Env) -> Result<(), MemoryError> {
    let (anna, eve) = (owner("anna"), owner("eve"));
    let said = [std::sync::Arc::new(provost_core::Message::user("hello"))];
    store.enqueue(&anna, Conversation::new("talk", &said), env.now()).await?;
    assert!(store.jobs(&eve).await?.is_empty());
    let claim = store.claim(env.now(), std::time::Duration::from_secs(60)).await?;
    let key = claim.job.map(|job| job.key);
    let stolen = store.apply(&eve, Batch { changes: Vec::new(), done: key }).await;
    assert!(matches!(stolen, Err(MemoryError::JobGone(_))), "{stolen:?}");
    store.apply(&anna, Batch { changes: Vec::new(), done: key }).await
}
