//! Memory search: batched inserts, hybrid search, and recall.
//!
//! Vectors are drawn around topics, like embeddings of real sentences. Texts follow Zipf's law over 20,000 words. The
//! reference is the in-memory store, which compares all full vectors.

use std::path::Path;
use std::time::{Duration, Instant};

use provost_core::Env;
use provost_memory::{
    ChangeSet, Embedding, InMemoryStore, Memory, MemoryChange, MemoryRecord, MemoryStore, Owner,
    SearchQuery, SqliteMemoryStore,
};

use crate::disk::fresh;
use crate::measure::{median, percentile};
use crate::table::{Table, Unit};
use crate::{Plan, Result};

const DIMENSIONS: usize = 384;
const MEMORIES: usize = 100_000;
const BATCH: usize = 1000;
const QUERIES: usize = 200;
const SEARCH_SECONDS_MAX: f64 = 20e-3;
const RECALL_MIN: f64 = 0.95;
const INSERTS_MIN: f64 = 10_000.0;
const WORDS: usize = 20_000;
const TOPICS: usize = 500;
const TOP: usize = 10;

/// Texts and vectors from a seed.
struct Source {
    env: Env,
    /// Cumulative frequency of the words, most frequent first.
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

    fn vector(&self) -> Embedding {
        let topic = &self.topics[self.env.random() as usize % TOPICS];
        let values = topic.iter().zip(gauss(&self.env)).map(|(x, y)| x + y).collect();
        Embedding { space: "measure/random/384".to_owned(), values }
    }

    fn entry(&self, owner: &Owner) -> MemoryRecord {
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
        MemoryRecord { memory, vector: Some(self.vector()) }
    }
}

/// Returns approximately normally distributed numbers: sums of uniform ones.
fn gauss(env: &Env) -> Vec<f32> {
    let number = |_| (0..4).map(|_| env.random_unit() as f32 - 0.5).sum();
    (0..DIMENSIONS).map(number).collect()
}

fn add(entries: &[MemoryRecord]) -> ChangeSet {
    let changes = entries.iter().map(|entry| MemoryChange::Add(Box::new(entry.clone()))).collect();
    ChangeSet { changes, finished_job: None }
}

/// Measures inserts, searches and recall.
pub(crate) fn measure(plan: Plan, dir: &Path, table: &mut Table) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let folder = fresh(dir)?;
    let path = folder.path().join("memory.db");
    runtime.block_on(search(plan.pick(MEMORIES, MEMORIES / 10), &path, table))
}

async fn search(memories: usize, path: &Path, table: &mut Table) -> Result<()> {
    let (store, exact) = (SqliteMemoryStore::open(path)?, InMemoryStore::new());
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
    let what = format!("{memories} memories of {DIMENSIONS} dimensions");
    let inserted = memories as f64 / inserting.as_secs_f64();
    table.at_least(&format!("{what}: inserts in batches"), Unit::PerSecond, inserted, INSERTS_MIN);
    let query = |_| SearchQuery {
        text: source.text(6),
        vector: Some(source.vector()),
        limit: TOP,
        ..SearchQuery::default()
    };
    let queries: Vec<SearchQuery> = (0..QUERIES).map(query).collect();
    let started = Instant::now();
    store.search(&owner, &queries[0]).await?;
    let first = started.elapsed().as_secs_f64();
    let (mut times, mut recalled, mut expected) = (Vec::new(), 0, 0);
    for query in &queries {
        let started = Instant::now();
        let found = store.search(&owner, query).await?;
        times.push(started.elapsed().as_secs_f64());
        let best = exact.search(&owner, query).await?;
        expected += best.len();
        let is_found = |id| found.iter().any(|found| found.memory.id == id);
        recalled += best.iter().filter(|best| is_found(best.memory.id)).count();
    }
    let p50 = median(times.clone());
    table.at_most(&format!("{what}: hybrid search, p50"), Unit::Time, p50, SEARCH_SECONDS_MAX);
    table.number(&format!("{what}: hybrid search, p95"), Unit::Time, percentile(times, 0.95));
    let recall = recalled as f64 / expected as f64;
    table.at_least(&format!("{what}: recall@{TOP}"), Unit::Times, recall, RECALL_MIN);
    table.number(&format!("{what}: first search after opening"), Unit::Time, first);
    Ok(())
}
