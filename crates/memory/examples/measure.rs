//! Measures the SQLite store: batched inserts, hybrid search, and how much of the exact answer it finds.
//!
//! `cargo run --release -p provost-memory --example measure [memories]`
//!
//! Vectors are drawn around topics, as embeddings of real sentences are; texts follow Zipf's law over 20,000 words. The exact
//! answer is that of the store in memory, which compares every full vector.

#![expect(clippy::print_stdout, reason = "a program that reports")]

use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use provost_core::Env;
use provost_memory::{
    Batch, Change, Entry, InMemoryStore, Memory, MemoryStore, Owner, Query, SqliteMemoryStore,
    Vector,
};

const DIMENSIONS: usize = 384;
const MEMORIES_DEFAULT: usize = 100_000;
const BATCH: usize = 1000;
const QUERIES: usize = 200;
const WORDS: usize = 20_000;
const TOPICS: usize = 500;
const TOP: usize = 10;

/// Texts and vectors from a seed.
struct Source {
    env: Env,
    /// The share of all words that the most frequent ones up to each make.
    zipf: Vec<f64>,
    topics: Vec<Vec<f32>>,
}

impl Source {
    fn new() -> Self {
        let env = Env::simulated(7);
        let total: f64 = (1..=WORDS).map(|rank| 1.0 / rank as f64).sum();
        let mut sum = 0.0;
        let share = |rank: usize| {
            sum += 1.0 / rank as f64 / total;
            sum
        };
        let zipf = (1..=WORDS).map(share).collect();
        let topics = (0..TOPICS).map(|_| gauss(&env)).collect();
        Self { env, zipf, topics }
    }

    fn text(&self, words: usize) -> String {
        let word = |_| {
            let chance = self.env.random_unit();
            format!("w{}", self.zipf.partition_point(|share| *share < chance))
        };
        (0..words).map(word).collect::<Vec<_>>().join(" ")
    }

    fn vector(&self) -> Vector {
        let topic = &self.topics[self.env.random() as usize % TOPICS];
        let values = topic.iter().zip(gauss(&self.env)).map(|(x, y)| x + y).collect();
        Vector { space: "measure/random/384".to_owned(), values }
    }

    fn entry(&self, owner: &Owner) -> Entry {
        self.env.advance(Duration::from_millis(1));
        let (now, words) = (self.env.now(), 8 + self.env.random() as usize % 10);
        let memory = Memory {
            id: self.env.id(),
            owner: owner.clone(),
            text: self.text(words),
            category: None,
            metadata: Default::default(),
            sources: Vec::new(),
            created_at: now,
            updated_at: now,
            valid_from: now,
            superseded_by: None,
        };
        Entry { memory, vector: Some(self.vector()) }
    }
}

/// Numbers of a bell curve: the sum of some even ones.
fn gauss(env: &Env) -> Vec<f32> {
    let number = |_| (0..4).map(|_| env.random_unit() as f32 - 0.5).sum();
    (0..DIMENSIONS).map(number).collect()
}

fn add(entries: &[Entry]) -> Batch {
    let changes = entries.iter().map(|entry| Change::Add(Box::new(entry.clone()))).collect();
    Batch { changes, done: None }
}

async fn timed(
    store: &dyn MemoryStore,
    owner: &Owner,
    queries: impl Iterator<Item = Query>,
) -> Result<Vec<Duration>, Box<dyn Error>> {
    let mut times = Vec::new();
    for query in queries {
        let started = Instant::now();
        store.search(owner, &query).await?;
        times.push(started.elapsed());
    }
    Ok(times)
}

fn report(what: &str, mut times: Vec<Duration>) {
    times.sort();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize].as_secs_f64() * 1e3;
    println!("{what:<17} p50 {:.2} ms, p95 {:.2} ms, p99 {:.2} ms", at(0.5), at(0.95), at(0.99));
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let memories = std::env::args().nth(1).map_or(Ok(MEMORIES_DEFAULT), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("memory.db");
    let (store, exact) = (Arc::new(SqliteMemoryStore::open(&path)?), InMemoryStore::new());
    let (owner, source) = (Owner::new("measured")?, Source::new());
    let mut inserting = Duration::ZERO;
    let mut left = memories;
    while left > 0 {
        let entries: Vec<_> = (0..left.min(BATCH)).map(|_| source.entry(&owner)).collect();
        left -= entries.len();
        let batch = add(&entries);
        let started = Instant::now();
        store.apply(&owner, batch).await?;
        inserting += started.elapsed();
        exact.apply(&owner, add(&entries)).await?;
    }
    let bytes = std::fs::metadata(&path)?.len();
    println!("memories          {memories} x {DIMENSIONS} numbers, {} MiB", bytes >> 20);
    println!(
        "inserts           {:.0}/s in batches of {BATCH}",
        memories as f64 / inserting.as_secs_f64()
    );
    let queries: Vec<_> = (0..QUERIES)
        .map(|_| Query {
            text: source.text(6),
            vector: Some(source.vector()),
            limit: TOP,
            ..Query::default()
        })
        .collect();
    let started = Instant::now();
    store.search(&owner, &queries[0]).await?;
    println!(
        "first search      {:.0} ms, with the reading of the index",
        started.elapsed().as_secs_f64() * 1e3
    );
    let mut times = Vec::new();
    let mut recalled = 0;
    let mut wanted = 0;
    for query in &queries {
        let started = Instant::now();
        let found = store.search(&owner, query).await?;
        times.push(started.elapsed());
        let best = exact.search(&owner, query).await?;
        wanted += best.len();
        let is_found = |id| found.iter().any(|found| found.memory.id == id);
        recalled += best.iter().filter(|best| is_found(best.memory.id)).count();
    }
    report("hybrid search", times);
    println!(
        "recall@{TOP}         {:.4} against exact, {QUERIES} queries",
        recalled as f64 / wanted as f64
    );
    let by_words = |query: &Query| Query { vector: None, ..query.clone() };
    let by_meaning = |query: &Query| Query { text: String::new(), ..query.clone() };
    report("by words only", timed(&*store, &owner, queries.iter().map(by_words)).await?);
    report("by meaning only", timed(&*store, &owner, queries.iter().map(by_meaning)).await?);
    let started = Instant::now();
    store.apply(&owner, add(&[source.entry(&owner)])).await?;
    store.search(&owner, &queries[0]).await?;
    println!("write, then find  {:.2} ms", started.elapsed().as_secs_f64() * 1e3);
    Ok(())
}
