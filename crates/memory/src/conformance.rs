//! What every memory store must do, as checks that anybody who writes a store can run.
//!
//! A check panics where the store is wrong and returns an error where the store gave one it should not.

mod queue;
mod sample;
mod scope;

use std::sync::Arc;

use provost_core::Env;
use serde_json::json;

use self::sample::{OTHER_SPACE, add, entry, owner, unit, vector};
use crate::MemoryError;
use crate::memory::{Category, NewMemory, Source};
use crate::store::{Batch, Change, Filter, Forget, MemoryStore, Page, Query, Update};

pub use self::queue::{forgetting_calls_off, jobs};
pub use self::scope::owners_never_meet;

/// Memories in the check of paging.
const PAGED: usize = 25;

/// Runs every check.
///
/// Each call of `open` must give a store over the same data; at first there must be none.
///
/// # Panics
/// If the store is wrong.
pub async fn all(open: impl Fn() -> Arc<dyn MemoryStore>) -> Result<(), MemoryError> {
    let store = open();
    everything_round_trips(&*store, &*open()).await?;
    hybrid_ranking(&*store).await?;
    filters(&*store).await?;
    paging(&*store).await?;
    updates(&*store).await?;
    superseding(&*store, &*open()).await?;
    forgetting(&*store, &*open()).await?;
    batches_are_whole(&*store).await?;
    one_space(&*store).await?;
    bad_input(&*store).await?;
    owners_never_meet(&*store).await?;
    jobs(&*store).await?;
    forgetting_calls_off(&*store).await
}

/// What is stored is what is read, by everybody.
///
/// # Panics
/// If the store is wrong.
pub async fn everything_round_trips(
    store: &dyn MemoryStore,
    other: &dyn MemoryStore,
) -> Result<(), MemoryError> {
    let (env, who) = (Env::simulated(1), owner("round-trip"));
    let new = NewMemory::new("Lives in Zürich \u{1f3d4}\u{fe0f} since\n2019 'quoted\" --")
        .category(Category::Personal)
        .metadata("deep", json!({ "a": [1, null, "x"] }))
        .source("s-1", "m-1")
        .source("s-2", "m-2");
    let entry = entry(&env, &who, new, &[("zürich", 1.0)]);
    let memory = entry.memory.clone();
    store.apply(&who, add([entry])).await?;
    for store in [store, other] {
        assert_eq!(store.get(&who, memory.id).await?, Some(memory.clone()));
        assert_eq!(store.count(&who).await?, 1);
        let listing = store.list(&who, &Page::default()).await?;
        assert_eq!(listing.memories, std::slice::from_ref(&memory));
        assert_eq!(listing.next, None);
        let found = store.search(&who, &Query::text("ZÜRICH")).await?;
        assert_eq!(found.len(), 1, "found by a word in other letters");
        assert_eq!(found[0].memory, memory);
    }
    Ok(())
}

/// Words, meaning, both, thresholds and limits.
///
/// # Panics
/// If the store is wrong.
pub async fn hybrid_ranking(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let (env, who) = (Env::simulated(2), owner("ranking"));
    let tea = entry(&env, &who, NewMemory::new("Drinks green tea"), &[("drink", 1.0)]);
    let coffee =
        entry(&env, &who, NewMemory::new("Hates coffee"), &[("drink", 0.8), ("hate", 0.6)]);
    let dog = entry(&env, &who, NewMemory::new("Has a dog called Rex"), &[("animal", 1.0)]);
    let silent = crate::store::Entry {
        vector: None,
        ..entry(&env, &who, NewMemory::new("Plays chess"), &[("game", 1.0)])
    };
    let ids = [&tea, &coffee, &dog, &silent].map(|entry| entry.memory.id);
    store.apply(&who, add([tea, coffee, dog, silent])).await?;
    let names = |found: Vec<crate::store::Found>| -> Vec<usize> {
        let place = |found: &crate::store::Found| {
            ids.iter().position(|id| *id == found.memory.id).unwrap_or(usize::MAX)
        };
        found.iter().map(place).collect()
    };
    let by_words = store.search(&who, &Query::text("a dog, please")).await?;
    assert_eq!(names(by_words), [2]);
    let meaning = Query { vector: Some(unit(&[("drink", 1.0)])), ..Query::default() };
    let found = store.search(&who, &meaning).await?;
    assert!((found[0].score - 1.0).abs() < 1e-3, "the cosine of like vectors: {}", found[0].score);
    assert_eq!(names(found), [0, 1]);
    let both = Query { text: "coffee".into(), ..meaning.clone() };
    assert_eq!(
        names(store.search(&who, &both).await?),
        [1, 0],
        "a word outweighs a little meaning"
    );
    let only_meaning = Query { vector_weight: 1.0, ..both.clone() };
    assert_eq!(names(store.search(&who, &only_meaning).await?), [0, 1]);
    let strict = Query { threshold: 0.9, ..meaning.clone() };
    assert_eq!(names(store.search(&who, &strict).await?), [0]);
    let one = Query { limit: 1, ..meaning };
    assert_eq!(names(store.search(&who, &one).await?), [0]);
    let without_vector = store.search(&who, &Query::text("chess")).await?;
    assert_eq!(names(without_vector), [3], "a memory without a vector is found by words");
    for nothing in [Query::text("submarine"), Query::text(""), Query { limit: 0, ..both }] {
        assert_eq!(names(store.search(&who, &nothing).await?), [0usize; 0], "{nothing:?}");
    }
    Ok(())
}

/// Filters let through what they say, however little that is.
///
/// # Panics
/// If the store is wrong.
pub async fn filters(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let (env, who) = (Env::simulated(3), owner("filters"));
    let mut entries = Vec::new();
    for number in 0..30 {
        let category = if number == 7 { Category::Health } else { Category::Other };
        let new = NewMemory::new(format!("fact {number}"))
            .category(category)
            .metadata("number", number)
            .metadata("even", number % 2 == 0);
        entries.push(entry(&env, &who, new, &[("fact", 1.0)]));
        env.advance(std::time::Duration::from_secs(1));
    }
    let late = entries[20].memory.valid_from;
    store.apply(&who, add(entries)).await?;
    let query = |filter: Filter| Query {
        text: "fact".into(),
        vector: Some(unit(&[("fact", 1.0)])),
        limit: 100,
        filter,
        ..Query::default()
    };
    let value = |key: &str, value: serde_json::Value| {
        [(key.to_owned(), value)].into_iter().collect::<serde_json::Map<_, _>>()
    };
    let health = Filter { category: Some(Category::Health), ..Filter::default() };
    let even = Filter { metadata: value("even", json!(true)), ..Filter::default() };
    let seven = Filter { metadata: value("number", json!(7)), ..Filter::default() };
    let since = Filter { since: Some(late), ..Filter::default() };
    let none = Filter { metadata: value("number", json!("7")), ..Filter::default() };
    for (filter, count) in [(health, 1), (even, 15), (seven, 1), (since, 10), (none, 0)] {
        let found = store.search(&who, &query(filter.clone())).await?;
        assert_eq!(found.len(), count, "{filter:?}");
        let page = Page { filter: filter.clone(), ..Page::default() };
        assert_eq!(store.list(&who, &page).await?.memories.len(), count, "{filter:?}");
    }
    Ok(())
}

/// Pages are complete, without repetition, newest first, also when something goes in between.
///
/// # Panics
/// If the store is wrong.
pub async fn paging(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let (env, who) = (Env::simulated(4), owner("paging"));
    for number in 0..PAGED {
        let new = NewMemory::new(format!("page {number}"));
        store.apply(&who, add([entry(&env, &who, new, &[])])).await?;
        env.advance(std::time::Duration::from_millis(2));
    }
    let mut page = Page { limit: 10, ..Page::default() };
    let mut texts = Vec::new();
    loop {
        let listing = store.list(&who, &page).await?;
        texts.extend(listing.memories.iter().map(|memory| memory.text.clone()));
        let Some(next) = listing.next else { break };
        // The place where the page ended may go meanwhile.
        store.forget(&who, &Forget::Memory(next)).await?;
        page.after = Some(next);
    }
    let expected: Vec<String> = (0..PAGED).rev().map(|number| format!("page {number}")).collect();
    assert_eq!(texts, expected);
    Ok(())
}

/// An update changes what it says and keeps the rest.
///
/// # Panics
/// If the store is wrong.
pub async fn updates(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let (env, who) = (Env::simulated(5), owner("updates"));
    let new = NewMemory::new("Runs marathons")
        .category(Category::Health)
        .metadata("kept", 1)
        .metadata("changed", 1)
        .source("s", "m-1");
    let first = entry(&env, &who, new, &[("sport", 1.0)]);
    let before = first.memory.clone();
    store.apply(&who, add([first])).await?;
    store.search(&who, &Query::text("marathon")).await?;
    env.advance(std::time::Duration::from_secs(5));
    let update = Update {
        id: before.id,
        text: "Runs ultra marathons".into(),
        vector: Some(vector(&[("far", 1.0)])),
        category: None,
        metadata: [("changed".to_owned(), json!(2))].into_iter().collect(),
        sources: vec![Source { session: "s".into(), message: "m-2".into() }],
        at: env.now(),
    };
    let change = Change::Update(Box::new(update.clone()));
    store.apply(&who, Batch { changes: vec![change.clone()], done: None }).await?;
    let after = store.get(&who, before.id).await?.unwrap_or_else(|| before.clone());
    assert_eq!(after.text, "Runs ultra marathons");
    assert_eq!(after.category, Some(Category::Health), "no category keeps the category");
    assert_eq!((&after.metadata["kept"], &after.metadata["changed"]), (&json!(1), &json!(2)));
    assert_eq!(after.sources.len(), 2);
    assert_eq!((after.created_at, after.updated_at), (before.created_at, env.now()));
    assert_eq!(store.search(&who, &Query::text("ultra")).await?.len(), 1);
    let old = Query { vector: Some(unit(&[("sport", 1.0)])), ..Query::default() };
    assert!(store.search(&who, &old).await?.is_empty(), "the old vector is gone");
    assert_eq!(store.count(&who).await?, 1);
    let missing = Update { id: env.id(), ..update };
    let missing = Batch { changes: vec![Change::Update(Box::new(missing))], done: None };
    let refused = store.apply(&who, missing).await;
    assert!(matches!(refused, Err(MemoryError::NotFound(_))), "{refused:?}");
    Ok(())
}

/// What is superseded stays as history and is not found.
///
/// # Panics
/// If the store is wrong.
pub async fn superseding(
    store: &dyn MemoryStore,
    other: &dyn MemoryStore,
) -> Result<(), MemoryError> {
    let (env, who) = (Env::simulated(6), owner("superseding"));
    let old = entry(&env, &who, NewMemory::new("Lives in Berlin"), &[("home", 1.0)]);
    let old_id = old.memory.id;
    store.apply(&who, add([old])).await?;
    let home =
        Query { text: "Berlin".into(), vector: Some(unit(&[("home", 1.0)])), ..Query::default() };
    for store in [store, other] {
        assert_eq!(store.search(&who, &home).await?.len(), 1);
    }
    env.advance(std::time::Duration::from_secs(1));
    let new = entry(&env, &who, NewMemory::new("Lives in Paris"), &[("home", 1.0)]);
    let new_id = new.memory.id;
    let change = Change::Supersede { old: old_id, new: Box::new(new) };
    store.apply(&who, Batch { changes: vec![change.clone()], done: None }).await?;
    for store in [store, other] {
        let found = store.search(&who, &home).await?;
        assert_eq!(found.len(), 1, "the old one is not found, neither by word nor by meaning");
        assert_eq!(found[0].memory.id, new_id);
        assert!(store.search(&who, &Query::text("Berlin")).await?.is_empty());
        let kept = store.get(&who, old_id).await?;
        assert_eq!(kept.and_then(|old| old.superseded_by), Some(new_id), "kept and linked");
        assert_eq!(store.count(&who).await?, 1);
        assert_eq!(store.list(&who, &Page::default()).await?.memories.len(), 1);
        let history = Page { history: true, ..Page::default() };
        assert_eq!(store.list(&who, &history).await?.memories.len(), 2);
    }
    let again = store.apply(&who, Batch { changes: vec![change], done: None }).await;
    assert!(matches!(again, Err(MemoryError::Superseded(_))), "{again:?}");
    Ok(())
}

/// Forgetting takes everything along that came from what is forgotten.
///
/// # Panics
/// If the store is wrong.
pub async fn forgetting(
    store: &dyn MemoryStore,
    other: &dyn MemoryStore,
) -> Result<(), MemoryError> {
    let (env, who) = (Env::simulated(7), owner("forgetting"));
    let from = |text: &str, messages: &[&str]| {
        let new = messages.iter().fold(NewMemory::new(text), |new, message| {
            let (session, message) = message.split_once('/').unwrap_or((message, ""));
            new.source(session, message)
        });
        entry(&env, &who, new, &[(text, 1.0)])
    };
    let old = from("alpha", &["s1/m1"]);
    let (old_id, new) = (old.memory.id, from("beta", &["s2/m1"]));
    let merged = from("gamma", &["s1/m2", "s3/m1"]);
    let apart = from("delta", &["s4/m1"]);
    let apart_id = apart.memory.id;
    store.apply(&who, add([old, merged, apart])).await?;
    let change = Change::Supersede { old: old_id, new: Box::new(new) };
    store.apply(&who, Batch { changes: vec![change], done: None }).await?;
    assert_eq!(other.search(&who, &Query::text("gamma")).await?.len(), 1);
    let message = |session: &str, message: &str| {
        Forget::Message(Source { session: session.into(), message: message.into() })
    };
    assert_eq!(store.forget(&who, &message("s3", "other")).await?, 0);
    assert_eq!(store.forget(&who, &message("s3", "m1")).await?, 1, "one source is enough");
    assert_eq!(store.forget(&who, &Forget::Session("s2".into())).await?, 2, "with its history");
    for store in [store, other] {
        for text in ["alpha", "beta", "gamma"] {
            assert!(store.search(&who, &Query::text(text)).await?.is_empty(), "{text}");
            let meaning = Query { vector: Some(unit(&[(text, 1.0)])), ..Query::default() };
            assert!(store.search(&who, &meaning).await?.is_empty(), "{text}");
        }
        assert_eq!(store.get(&who, old_id).await?, None);
        assert_eq!(store.search(&who, &Query::text("delta")).await?.len(), 1);
    }
    assert_eq!(store.forget(&who, &Forget::Memory(apart_id)).await?, 1);
    assert_eq!(store.forget(&who, &Forget::Memory(apart_id)).await?, 0, "it is gone already");
    store.apply(&who, add([from("epsilon", &[]), from("zeta", &[])])).await?;
    assert_eq!(store.forget(&who, &Forget::Everything).await?, 2);
    assert_eq!(store.count(&who).await?, 0);
    assert!(other.search(&who, &Query::text("zeta")).await?.is_empty());
    store.apply(&who, add([from("eta", &[])])).await?;
    assert_eq!(other.search(&who, &Query::text("eta")).await?.len(), 1, "one can begin anew");
    Ok(())
}

/// A batch that fails changes nothing.
///
/// # Panics
/// If the store is wrong.
pub async fn batches_are_whole(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let (env, who) = (Env::simulated(8), owner("batches"));
    let good = entry(&env, &who, NewMemory::new("good"), &[("good", 1.0)]);
    let mut batch = add([good.clone(), good.clone()]);
    let twice = store.apply(&who, batch.clone()).await;
    assert!(matches!(twice, Err(MemoryError::Invalid(_))), "an id is used once: {twice:?}");
    batch.changes.truncate(1);
    let missing = entry(&env, &who, NewMemory::new("x"), &[]);
    batch.changes.push(Change::Supersede { old: env.id(), new: Box::new(missing) });
    let refused = store.apply(&who, batch).await;
    assert!(matches!(refused, Err(MemoryError::NotFound(_))), "{refused:?}");
    assert_eq!(store.count(&who).await?, 0);
    assert!(store.search(&who, &Query::text("good")).await?.is_empty());
    store.apply(&who, add([good])).await
}

/// Vectors of another embedder are refused, not compared.
///
/// # Panics
/// If the store is wrong.
pub async fn one_space(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let (env, who) = (Env::simulated(9), owner("spaces"));
    let mut foreign = entry(&env, &who, NewMemory::new("foreign"), &[("x", 1.0)]);
    if let Some(vector) = &mut foreign.vector {
        vector.space = OTHER_SPACE.into();
    }
    let query = Query { vector: foreign.vector.clone(), ..Query::default() };
    let refused = store.apply(&who, add([foreign])).await;
    assert!(matches!(refused, Err(MemoryError::Space { .. })), "{refused:?}");
    let refused = store.search(&who, &query).await;
    assert!(matches!(refused, Err(MemoryError::Space { .. })), "{refused:?}");
    Ok(())
}

/// What is too large or empty is refused.
///
/// # Panics
/// If the store is wrong.
pub async fn bad_input(store: &dyn MemoryStore) -> Result<(), MemoryError> {
    let (env, who) = (Env::simulated(10), owner("bad input"));
    let long = "x".repeat(crate::memory::TEXT_BYTES_MAX + 1);
    let many = (0..300).fold(NewMemory::new("x"), |new, n| new.source("s", n.to_string()));
    for new in [
        NewMemory::new(" \n"),
        NewMemory::new(long.clone()),
        NewMemory::new("x").metadata("m", "y".repeat(crate::memory::METADATA_BYTES_MAX)),
        NewMemory::new("x").source(long, "m"),
        many,
    ] {
        let refused = store.apply(&who, add([entry(&env, &who, new, &[])])).await;
        assert!(matches!(refused, Err(MemoryError::Invalid(_))), "{refused:?}");
    }
    let nan = crate::store::Vector { values: vec![f32::NAN; 8], ..vector(&[]) };
    let broken = crate::store::Entry {
        vector: Some(nan),
        ..entry(&env, &who, NewMemory::new("without direction"), &[])
    };
    store.apply(&who, add([broken])).await?;
    assert_eq!(store.search(&who, &Query::text("direction")).await?.len(), 1);
    Ok(())
}
