//! Conformance checks for implementations of [`MemoryStore`].
//!
//! A check panics if the store violates the contract, and returns an error if the store fails unexpectedly.

mod queue;
mod sample;
mod scope;

use std::sync::Arc;

use provost_core::Env;
use serde_json::json;

use self::sample::{OTHER_SPACE, add, record, unit, vector};
use crate::MemoryError;
use crate::memory::{MemoryCategory, MemorySource, NewMemory};
use crate::store::{
    ChangeSet, DeleteScope, ListRequest, MemoryChange, MemoryFilter, MemoryStore, RecordUpdate,
    SearchQuery,
};

pub use self::queue::{deletion_cancels_jobs, jobs};
pub use self::scope::owners_are_isolated;

/// Number of memories in the paging check.
const PAGED: usize = 25;

/// Runs all checks. Each call of `open` must return a store over the same data, which is empty at first.
///
/// # Panics
/// If the store violates the contract.
pub async fn all(open: impl Fn() -> Arc<dyn MemoryStore>) -> Result<(), MemoryError> {
    let store = open();
    everything_round_trips(&*store, &*open()).await?;
    hybrid_ranking(&*store).await?;
    filters(&*store).await?;
    paging(&*store).await?;
    updates(&*store).await?;
    superseding(&*store, &*open()).await?;
    deletion(&*store, &*open()).await?;
    change_sets_are_atomic(&*store).await?;
    embeddings_share_one_space(&*store).await?;
    invalid_input_is_rejected(&*store).await?;
    owners_are_isolated(&*store).await?;
    jobs(&*store).await?;
    deletion_cancels_jobs(&*store).await
}

/// Every handle of a store reads exactly the stored values.
///
/// # Panics
/// If the store violates the contract.
pub async fn everything_round_trips(
    store: &dyn MemoryStore,
    other: &dyn MemoryStore,
) -> Result<(), MemoryError> {
    let (env, owner) = (Env::simulated(1), sample::owner("round-trip"));
    let new = NewMemory::new("Lives in Zürich \u{1f3d4}\u{fe0f} since\n2019 'quoted\" --")
        .category(MemoryCategory::Personal)
        .metadata("deep", json!({ "a": [1, null, "x"] }))
        .source("s-1", "m-1")
        .source("s-2", "m-2");
    let stored = record(&env, &owner, new, &[("zürich", 1.0)]);
    let memory = stored.memory.clone();
    store.apply(&owner, add([stored])).await?;
    for store in [store, other] {
        assert_eq!(store.get(&owner, memory.id).await?, Some(memory.clone()));
        assert_eq!(store.count(&owner).await?, 1);
        let listing = store.list(&owner, &ListRequest::default()).await?;
        assert_eq!(listing.memories, std::slice::from_ref(&memory));
        assert_eq!(listing.next, None);
        let found = store.search(&owner, &SearchQuery::text("ZÜRICH")).await?;
        assert_eq!(found.len(), 1, "found by a word in other letters");
        assert_eq!(found[0].memory, memory);
    }
    Ok(())
}

/// Searches rank by words, by embeddings and by both, and respect thresholds and limits.
///
/// # Panics
/// If the store violates the contract.
pub async fn hybrid_ranking(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let (env, owner) = (Env::simulated(2), sample::owner("ranking"));
    let tea = record(&env, &owner, NewMemory::new("Drinks green tea"), &[("drink", 1.0)]);
    let coffee =
        record(&env, &owner, NewMemory::new("Hates coffee"), &[("drink", 0.8), ("hate", 0.6)]);
    let dog = record(&env, &owner, NewMemory::new("Has a dog called Rex"), &[("animal", 1.0)]);
    let silent = crate::store::MemoryRecord {
        vector: None,
        ..record(&env, &owner, NewMemory::new("Plays chess"), &[("game", 1.0)])
    };
    let ids = [&tea, &coffee, &dog, &silent].map(|record| record.memory.id);
    store.apply(&owner, add([tea, coffee, dog, silent])).await?;
    let names = |found: Vec<crate::store::SearchHit>| -> Vec<usize> {
        let place = |found: &crate::store::SearchHit| {
            ids.iter().position(|id| *id == found.memory.id).unwrap_or(usize::MAX)
        };
        found.iter().map(place).collect()
    };
    let by_words = store.search(&owner, &SearchQuery::text("a dog, please")).await?;
    assert_eq!(names(by_words), [2]);
    let meaning = SearchQuery { vector: Some(unit(&[("drink", 1.0)])), ..SearchQuery::default() };
    let found = store.search(&owner, &meaning).await?;
    assert!((found[0].score - 1.0).abs() < 1e-3, "the cosine of like vectors: {}", found[0].score);
    assert_eq!(names(found), [0, 1]);
    let both = SearchQuery { text: "coffee".into(), ..meaning.clone() };
    assert_eq!(
        names(store.search(&owner, &both).await?),
        [1, 0],
        "a word outweighs a little meaning"
    );
    let only_meaning = SearchQuery { vector_weight: 1.0, ..both.clone() };
    assert_eq!(names(store.search(&owner, &only_meaning).await?), [0, 1]);
    let strict = SearchQuery { threshold: 0.9, ..meaning.clone() };
    assert_eq!(names(store.search(&owner, &strict).await?), [0]);
    let one = SearchQuery { limit: 1, ..meaning };
    assert_eq!(names(store.search(&owner, &one).await?), [0]);
    let without_vector = store.search(&owner, &SearchQuery::text("chess")).await?;
    assert_eq!(names(without_vector), [3], "a memory without a vector is found by words");
    for nothing in
        [SearchQuery::text("submarine"), SearchQuery::text(""), SearchQuery { limit: 0, ..both }]
    {
        assert_eq!(names(store.search(&owner, &nothing).await?), [0usize; 0], "{nothing:?}");
    }
    Ok(())
}

/// Searches and lists return exactly the memories that match the filter.
///
/// # Panics
/// If the store violates the contract.
pub async fn filters(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let (env, owner) = (Env::simulated(3), sample::owner("filters"));
    let mut records = Vec::new();
    for number in 0..30 {
        let category = if number == 7 { MemoryCategory::Health } else { MemoryCategory::Other };
        let new = NewMemory::new(format!("fact {number}"))
            .category(category)
            .metadata("number", number)
            .metadata("even", number % 2 == 0);
        records.push(record(&env, &owner, new, &[("fact", 1.0)]));
        env.advance(std::time::Duration::from_secs(1));
    }
    let late = records[20].memory.valid_from;
    store.apply(&owner, add(records)).await?;
    let query = |filter: MemoryFilter| SearchQuery {
        text: "fact".into(),
        vector: Some(unit(&[("fact", 1.0)])),
        limit: 100,
        filter,
        ..SearchQuery::default()
    };
    let value = |key: &str, value: serde_json::Value| {
        [(key.to_owned(), value)].into_iter().collect::<serde_json::Map<_, _>>()
    };
    let health = MemoryFilter { category: Some(MemoryCategory::Health), ..MemoryFilter::default() };
    let even = MemoryFilter { metadata: value("even", json!(true)), ..MemoryFilter::default() };
    let seven = MemoryFilter { metadata: value("number", json!(7)), ..MemoryFilter::default() };
    let since = MemoryFilter { since: Some(late), ..MemoryFilter::default() };
    let none = MemoryFilter { metadata: value("number", json!("7")), ..MemoryFilter::default() };
    for (filter, count) in [(health, 1), (even, 15), (seven, 1), (since, 10), (none, 0)] {
        let found = store.search(&owner, &query(filter.clone())).await?;
        assert_eq!(found.len(), count, "{filter:?}");
        let page = ListRequest { filter: filter.clone(), ..ListRequest::default() };
        assert_eq!(store.list(&owner, &page).await?.memories.len(), count, "{filter:?}");
    }
    Ok(())
}

/// Pages contain every memory once, newest first, even if memories are deleted between two pages.
///
/// # Panics
/// If the store violates the contract.
pub async fn paging(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let (env, owner) = (Env::simulated(4), sample::owner("paging"));
    for number in 0..PAGED {
        let new = NewMemory::new(format!("page {number}"));
        store.apply(&owner, add([record(&env, &owner, new, &[])])).await?;
        env.advance(std::time::Duration::from_millis(2));
    }
    let mut page = ListRequest { limit: 10, ..ListRequest::default() };
    let mut texts = Vec::new();
    loop {
        let listing = store.list(&owner, &page).await?;
        texts.extend(listing.memories.iter().map(|memory| memory.text.clone()));
        let Some(next) = listing.next else { break };
        // The last memory of a page may be deleted before the next page is read.
        store.delete(&owner, &DeleteScope::Memory(next)).await?;
        page.after = Some(next);
    }
    let expected: Vec<String> = (0..PAGED).rev().map(|number| format!("page {number}")).collect();
    assert_eq!(texts, expected);
    Ok(())
}

/// An update replaces the given values and leaves the others unchanged.
///
/// # Panics
/// If the store violates the contract.
pub async fn updates(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let (env, owner) = (Env::simulated(5), sample::owner("updates"));
    let new = NewMemory::new("Runs marathons")
        .category(MemoryCategory::Health)
        .metadata("kept", 1)
        .metadata("changed", 1)
        .source("s", "m-1");
    let first = record(&env, &owner, new, &[("sport", 1.0)]);
    let before = first.memory.clone();
    store.apply(&owner, add([first])).await?;
    store.search(&owner, &SearchQuery::text("marathon")).await?;
    env.advance(std::time::Duration::from_secs(5));
    let update = RecordUpdate {
        id: before.id,
        text: "Runs ultra marathons".into(),
        vector: Some(vector(&[("far", 1.0)])),
        category: None,
        metadata: [("changed".to_owned(), json!(2))].into_iter().collect(),
        sources: vec![MemorySource { session: "s".into(), message: "m-2".into() }],
        at: env.now(),
    };
    let change = MemoryChange::Update(Box::new(update.clone()));
    store.apply(&owner, ChangeSet { changes: vec![change.clone()], finished_job: None }).await?;
    let after = store.get(&owner, before.id).await?.unwrap_or_else(|| before.clone());
    assert_eq!(after.text, "Runs ultra marathons");
    assert_eq!(after.category, Some(MemoryCategory::Health), "no category keeps the category");
    assert_eq!((&after.metadata["kept"], &after.metadata["changed"]), (&json!(1), &json!(2)));
    assert_eq!(after.sources.len(), 2);
    assert_eq!((after.created_at, after.updated_at), (before.created_at, env.now()));
    assert_eq!(store.search(&owner, &SearchQuery::text("ultra")).await?.len(), 1);
    let old = SearchQuery { vector: Some(unit(&[("sport", 1.0)])), ..SearchQuery::default() };
    assert!(store.search(&owner, &old).await?.is_empty(), "the old vector is gone");
    assert_eq!(store.count(&owner).await?, 1);
    let missing = RecordUpdate { id: env.id(), ..update };
    let missing =
        ChangeSet { changes: vec![MemoryChange::Update(Box::new(missing))], finished_job: None };
    let rejected = store.apply(&owner, missing).await;
    assert!(matches!(rejected, Err(MemoryError::NotFound(_))), "{rejected:?}");
    Ok(())
}

/// Superseded memories remain as history, and searches do not return them.
///
/// # Panics
/// If the store violates the contract.
pub async fn superseding(
    store: &dyn MemoryStore,
    other: &dyn MemoryStore,
) -> Result<(), MemoryError> {
    let (env, owner) = (Env::simulated(6), sample::owner("superseding"));
    let old = record(&env, &owner, NewMemory::new("Lives in Berlin"), &[("home", 1.0)]);
    let old_id = old.memory.id;
    store.apply(&owner, add([old])).await?;
    let home = SearchQuery {
        text: "Berlin".into(),
        vector: Some(unit(&[("home", 1.0)])),
        ..SearchQuery::default()
    };
    for store in [store, other] {
        assert_eq!(store.search(&owner, &home).await?.len(), 1);
    }
    env.advance(std::time::Duration::from_secs(1));
    let new = record(&env, &owner, NewMemory::new("Lives in Paris"), &[("home", 1.0)]);
    let new_id = new.memory.id;
    let change = MemoryChange::Supersede { old: old_id, new: Box::new(new) };
    store.apply(&owner, ChangeSet { changes: vec![change.clone()], finished_job: None }).await?;
    for store in [store, other] {
        let found = store.search(&owner, &home).await?;
        assert_eq!(found.len(), 1, "the old one is not found, neither by word nor by meaning");
        assert_eq!(found[0].memory.id, new_id);
        assert!(store.search(&owner, &SearchQuery::text("Berlin")).await?.is_empty());
        let superseded = store.get(&owner, old_id).await?;
        assert_eq!(superseded.and_then(|old| old.superseded_by), Some(new_id), "kept and linked");
        assert_eq!(store.count(&owner).await?, 1);
        assert_eq!(store.list(&owner, &ListRequest::default()).await?.memories.len(), 1);
        let history = ListRequest { include_superseded: true, ..ListRequest::default() };
        assert_eq!(store.list(&owner, &history).await?.memories.len(), 2);
    }
    let again = store.apply(&owner, ChangeSet { changes: vec![change], finished_job: None }).await;
    assert!(matches!(again, Err(MemoryError::Superseded(_))), "{again:?}");
    Ok(())
}

/// A deletion removes every memory with a matching source, together with the memories that it superseded.
///
/// # Panics
/// If the store violates the contract.
pub async fn deletion(store: &dyn MemoryStore, other: &dyn MemoryStore) -> Result<(), MemoryError> {
    let (env, owner) = (Env::simulated(7), sample::owner("forgetting"));
    let from = |text: &str, messages: &[&str]| {
        let new = messages.iter().fold(NewMemory::new(text), |new, message| {
            let (session, message) = message.split_once('/').unwrap_or((message, ""));
            new.source(session, message)
        });
        record(&env, &owner, new, &[(text, 1.0)])
    };
    let old = from("alpha", &["s1/m1"]);
    let (old_id, new) = (old.memory.id, from("beta", &["s2/m1"]));
    let merged = from("gamma", &["s1/m2", "s3/m1"]);
    let apart = from("delta", &["s4/m1"]);
    let apart_id = apart.memory.id;
    store.apply(&owner, add([old, merged, apart])).await?;
    let change = MemoryChange::Supersede { old: old_id, new: Box::new(new) };
    store.apply(&owner, ChangeSet { changes: vec![change], finished_job: None }).await?;
    assert_eq!(other.search(&owner, &SearchQuery::text("gamma")).await?.len(), 1);
    let message = |session: &str, message: &str| {
        DeleteScope::Message(MemorySource { session: session.into(), message: message.into() })
    };
    assert_eq!(store.delete(&owner, &message("s3", "other")).await?, 0);
    assert_eq!(store.delete(&owner, &message("s3", "m1")).await?, 1, "one source is enough");
    assert_eq!(
        store.delete(&owner, &DeleteScope::Session("s2".into())).await?,
        2,
        "with its history"
    );
    for store in [store, other] {
        for text in ["alpha", "beta", "gamma"] {
            assert!(store.search(&owner, &SearchQuery::text(text)).await?.is_empty(), "{text}");
            let meaning =
                SearchQuery { vector: Some(unit(&[(text, 1.0)])), ..SearchQuery::default() };
            assert!(store.search(&owner, &meaning).await?.is_empty(), "{text}");
        }
        assert_eq!(store.get(&owner, old_id).await?, None);
        assert_eq!(store.search(&owner, &SearchQuery::text("delta")).await?.len(), 1);
    }
    assert_eq!(store.delete(&owner, &DeleteScope::Memory(apart_id)).await?, 1);
    assert_eq!(
        store.delete(&owner, &DeleteScope::Memory(apart_id)).await?,
        0,
        "it is gone already"
    );
    store.apply(&owner, add([from("epsilon", &[]), from("zeta", &[])])).await?;
    assert_eq!(store.delete(&owner, &DeleteScope::Everything).await?, 2);
    assert_eq!(store.count(&owner).await?, 0);
    assert!(other.search(&owner, &SearchQuery::text("zeta")).await?.is_empty());
    store.apply(&owner, add([from("eta", &[])])).await?;
    assert_eq!(
        other.search(&owner, &SearchQuery::text("eta")).await?.len(),
        1,
        "one can begin anew"
    );
    Ok(())
}

/// A change set that fails changes nothing.
///
/// # Panics
/// If the store violates the contract.
pub async fn change_sets_are_atomic(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let (env, owner) = (Env::simulated(8), sample::owner("batches"));
    let good = record(&env, &owner, NewMemory::new("good"), &[("good", 1.0)]);
    let mut batch = add([good.clone(), good.clone()]);
    let twice = store.apply(&owner, batch.clone()).await;
    assert!(matches!(twice, Err(MemoryError::Invalid(_))), "an id is used once: {twice:?}");
    batch.changes.truncate(1);
    let missing = record(&env, &owner, NewMemory::new("x"), &[]);
    batch.changes.push(MemoryChange::Supersede { old: env.id(), new: Box::new(missing) });
    let rejected = store.apply(&owner, batch).await;
    assert!(matches!(rejected, Err(MemoryError::NotFound(_))), "{rejected:?}");
    assert_eq!(store.count(&owner).await?, 0);
    assert!(store.search(&owner, &SearchQuery::text("good")).await?.is_empty());
    store.apply(&owner, add([good])).await
}

/// Embeddings of another embedder are rejected.
///
/// # Panics
/// If the store violates the contract.
pub async fn embeddings_share_one_space(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let (env, owner) = (Env::simulated(9), sample::owner("spaces"));
    let mut foreign = record(&env, &owner, NewMemory::new("foreign"), &[("x", 1.0)]);
    if let Some(vector) = &mut foreign.vector {
        vector.space = OTHER_SPACE.into();
    }
    let query = SearchQuery { vector: foreign.vector.clone(), ..SearchQuery::default() };
    let rejected = store.apply(&owner, add([foreign])).await;
    assert!(matches!(rejected, Err(MemoryError::EmbeddingSpaceMismatch { .. })), "{rejected:?}");
    let rejected = store.search(&owner, &query).await;
    assert!(matches!(rejected, Err(MemoryError::EmbeddingSpaceMismatch { .. })), "{rejected:?}");
    Ok(())
}

/// Empty and oversized values are rejected.
///
/// # Panics
/// If the store violates the contract.
pub async fn invalid_input_is_rejected(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let (env, owner) = (Env::simulated(10), sample::owner("bad input"));
    let long = "x".repeat(crate::memory::TEXT_BYTES_MAX + 1);
    let many = (0..300).fold(NewMemory::new("x"), |new, n| new.source("s", n.to_string()));
    for new in [
        NewMemory::new(" \n"),
        NewMemory::new(long.clone()),
        NewMemory::new("x").metadata("m", "y".repeat(crate::memory::METADATA_BYTES_MAX)),
        NewMemory::new("x").source(long, "m"),
        many,
    ] {
        let rejected = store.apply(&owner, add([record(&env, &owner, new, &[])])).await;
        assert!(matches!(rejected, Err(MemoryError::Invalid(_))), "{rejected:?}");
    }
    let nan = crate::store::Embedding { values: vec![f32::NAN; 8], ..vector(&[]) };
    let broken = crate::store::MemoryRecord {
        vector: Some(nan),
        ..record(&env, &owner, NewMemory::new("without direction"), &[])
    };
    store.apply(&owner, add([broken])).await?;
    assert_eq!(store.search(&owner, &SearchQuery::text("direction")).await?.len(), 1);
    Ok(())
}
