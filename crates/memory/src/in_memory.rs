//! A store in the memory of this process, without persistence.
//!
//! A search scores every memory of the owner exactly. Benchmarks compare approximate stores with it.

mod queue;

use std::collections::{BTreeMap, HashMap};
use std::future::ready;
use std::time::Duration;

use futures::FutureExt;
use parking_lot::Mutex;
use provost_core::{MemoryId, Timestamp};

use self::queue::JobQueue;
use crate::MemoryError;
use crate::job::{ClaimResult, Conversation, JobClaim, JobRetry, JobStatus};
use crate::memory::{Memory, MemorySource, Owner, check_details, check_text};
use crate::rank::{self, TermWeights, TokenSet};
use crate::store::{
    ChangeSet, DeleteScope, Embedding, ListRequest, MemoryChange, MemoryFuture, MemoryPage,
    MemoryRecord, MemoryStore, PAGE_MAX, RecordUpdate, SearchHit, SearchQuery,
};

/// A store in the memory of this process. All memories are lost when it is dropped.
#[derive(Debug, Default)]
pub struct InMemoryStore {
    state: Mutex<MemoryState>,
}

/// Everything that the store contains.
#[derive(Debug, Default)]
struct MemoryState {
    owners: HashMap<Owner, BTreeMap<MemoryId, StoredMemory>>,
    /// Embedding space of all stored embeddings; `None` while there are none.
    space: Option<String>,
    queue: JobQueue,
}

/// A memory with its embedding and the words of its text.
#[derive(Debug, Clone)]
struct StoredMemory {
    memory: Memory,
    vector: Option<Vec<f32>>,
    words: TokenSet,
}

impl InMemoryStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl MemoryState {
    /// Applies all changes of a set, or none if one fails, and finishes its job.
    fn apply(&mut self, owner: &Owner, changes: ChangeSet) -> Result<(), MemoryError> {
        if let Some(claim) = changes.finished_job
            && !self.queue.is_claimed_by(owner, claim)
        {
            return Err(MemoryError::ClaimLost(claim.job));
        }
        let mut pending =
            PendingChanges { stored: self.owners.get(owner), changed: BTreeMap::new() };
        let mut space = self.space.clone();
        for change in changes.changes {
            pending.change(owner, change, &mut space)?;
        }
        let changed = pending.changed;
        self.owners.entry(owner.clone()).or_default().extend(changed);
        self.space = space;
        if let Some(claim) = changes.finished_job {
            self.queue.finish(claim);
        }
        Ok(())
    }

    /// Returns the current memories that match a query, best first.
    fn search(&self, owner: &Owner, query: &SearchQuery) -> Result<Vec<SearchHit>, MemoryError> {
        let vector = normalise(query.vector.as_ref(), &mut self.space.clone())?;
        let Some(memories) = self.owners.get(owner) else {
            return Ok(Vec::new());
        };
        let current: Vec<&StoredMemory> =
            memories.values().filter(|stored| stored.memory.superseded_by.is_none()).collect();
        let query_words = rank::query_words(&query.text);
        let contains =
            |stored: &StoredMemory, word: &u64| stored.words.distinct.binary_search(word).is_ok();
        let memories_with: Vec<usize> = query_words
            .iter()
            .map(|word| current.iter().filter(|stored| contains(stored, word)).count())
            .collect();
        let all: u64 = current.iter().map(|stored| u64::from(stored.words.count)).sum();
        let average = all as f32 / current.len().max(1) as f32;
        let weights = TermWeights::new(&memories_with, current.len(), average);
        let mut hits: Vec<SearchHit> = current
            .into_iter()
            .filter(|stored| query.filter.matches(&stored.memory))
            .map(|stored| {
                let shared =
                    query_words.iter().enumerate().filter(|(_, word)| contains(stored, word));
                let words: f32 =
                    shared.map(|(index, _)| weights.score(index, stored.words.count)).sum();
                let cosine = |query: &Vec<f32>| {
                    stored.vector.as_ref().map_or(0.0, |vector| rank::dot(query, vector))
                };
                let meaning = vector.as_ref().map(cosine);
                let words = (!query_words.is_empty()).then_some(words);
                let score = rank::combine(meaning, words, query.weight());
                SearchHit { memory: stored.memory.clone(), score }
            })
            .filter(|hit| hit.score > 0.0 && hit.score >= query.threshold)
            .collect();
        hits.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.memory.id.cmp(&a.memory.id)));
        hits.truncate(query.bounded_limit());
        Ok(hits)
    }

    /// Returns a page of memories, newest first.
    fn list(&self, owner: &Owner, request: &ListRequest) -> MemoryPage {
        let limit = request.limit.clamp(1, PAGE_MAX);
        let all = self.owners.get(owner).into_iter();
        let newest_first = all.flat_map(|memories| memories.values().rev());
        let mut memories: Vec<Memory> = newest_first
            .map(|stored| &stored.memory)
            .filter(|memory| request.after.is_none_or(|after| memory.id < after))
            .filter(|memory| request.include_superseded || memory.superseded_by.is_none())
            .filter(|memory| request.filter.matches(memory))
            .take(limit + 1)
            .cloned()
            .collect();
        let has_more = memories.len() > limit;
        memories.truncate(limit);
        let next = memories.last().filter(|_| has_more).map(|last| last.id);
        MemoryPage { memories, next }
    }

    /// Deletes the memories of a scope, the memories that they superseded and the jobs that would restore them.
    /// Returns the number of deleted memories.
    fn delete(&mut self, owner: &Owner, scope: &DeleteScope) -> u64 {
        self.queue.delete(owner, scope);
        let Some(memories) = self.owners.get_mut(owner) else {
            return 0;
        };
        let has_source = |stored: &StoredMemory, matches: &dyn Fn(&MemorySource) -> bool| {
            stored.memory.sources.iter().any(matches)
        };
        let mut to_delete: Vec<MemoryId> = memories
            .iter()
            .filter(|(id, stored)| match scope {
                DeleteScope::Memory(memory) => *id == memory,
                DeleteScope::Session(session) => {
                    has_source(stored, &|source| source.session == *session)
                }
                DeleteScope::Message(message) => has_source(stored, &|source| source == message),
                DeleteScope::Everything => true,
            })
            .map(|(id, _)| *id)
            .collect();
        let mut deleted = 0;
        while let Some(id) = to_delete.pop() {
            if memories.remove(&id).is_some() {
                deleted += 1;
                let is_predecessor =
                    |stored: &&StoredMemory| stored.memory.superseded_by == Some(id);
                let history = memories.values().filter(is_predecessor);
                to_delete.extend(history.map(|stored| stored.memory.id));
            }
        }
        if *scope == DeleteScope::Everything {
            self.owners.remove(owner);
        }
        deleted
    }
}

/// The memories of one owner with changes that are not stored yet.
struct PendingChanges<'a> {
    stored: Option<&'a BTreeMap<MemoryId, StoredMemory>>,
    changed: BTreeMap<MemoryId, StoredMemory>,
}

impl PendingChanges<'_> {
    /// Applies a change to the pending memories. Fails if the memory does not exist or is superseded.
    fn change(
        &mut self,
        owner: &Owner,
        change: MemoryChange,
        space: &mut Option<String>,
    ) -> Result<(), MemoryError> {
        match change {
            MemoryChange::Add(record) => self.add(owner, *record, space),
            MemoryChange::Update(update) => self.update(*update, space),
            MemoryChange::Supersede { old, new } => {
                let mut superseded = self.current(old)?;
                superseded.memory.superseded_by = Some(new.memory.id);
                self.changed.insert(old, superseded);
                self.add(owner, *new, space)
            }
        }
    }

    /// Adds a memory. Fails if its id exists.
    fn add(
        &mut self,
        owner: &Owner,
        record: MemoryRecord,
        space: &mut Option<String>,
    ) -> Result<(), MemoryError> {
        let MemoryRecord { mut memory, vector } = record;
        check_record(owner, &memory)?;
        memory.sources.sort();
        memory.sources.dedup();
        if self.find(memory.id).is_some() {
            return Err(MemoryError::Invalid(format!("memory {} exists already", memory.id)));
        }
        let vector = normalise(vector.as_ref(), space)?;
        let words = rank::words(&memory.text);
        self.changed.insert(memory.id, StoredMemory { memory, vector, words });
        Ok(())
    }

    /// Replaces the text of a memory and its derived values.
    fn update(
        &mut self,
        update: RecordUpdate,
        space: &mut Option<String>,
    ) -> Result<(), MemoryError> {
        let mut updated = self.current(update.id)?;
        apply_update(&mut updated.memory, &update)?;
        updated.vector = normalise(update.vector.as_ref(), space)?;
        updated.words = rank::words(&updated.memory.text);
        self.changed.insert(update.id, updated);
        Ok(())
    }

    /// Returns a memory as the pending changes leave it. `None` if it does not exist.
    fn find(&self, id: MemoryId) -> Option<&StoredMemory> {
        self.changed.get(&id).or_else(|| self.stored?.get(&id))
    }

    /// Returns a memory that is not superseded. Fails if it does not exist or is superseded.
    fn current(&self, id: MemoryId) -> Result<StoredMemory, MemoryError> {
        match self.find(id) {
            None => Err(MemoryError::NotFound(id)),
            Some(found) if found.memory.superseded_by.is_some() => Err(MemoryError::Superseded(id)),
            Some(found) => Ok(found.clone()),
        }
    }
}

/// Fails if a memory belongs to another owner or exceeds a limit.
pub(crate) fn check_record(owner: &Owner, memory: &Memory) -> Result<(), MemoryError> {
    if memory.owner != *owner {
        return Err(MemoryError::Invalid("the memory belongs to another owner".into()));
    }
    check_text(&memory.text)?;
    check_details(&memory.metadata, &memory.sources)
}

/// Applies an update to a memory: replaces the text, replaces the category if one is given, and adds metadata and
/// sources. The caller replaces the embedding. Fails if a limit is exceeded.
pub(crate) fn apply_update(memory: &mut Memory, update: &RecordUpdate) -> Result<(), MemoryError> {
    memory.text.clone_from(&update.text);
    memory.category = update.category.or(memory.category);
    memory.metadata.extend(update.metadata.clone());
    memory.sources.extend(update.sources.iter().cloned());
    memory.sources.sort();
    memory.sources.dedup();
    memory.updated_at = update.at;
    check_text(&memory.text)?;
    check_details(&memory.metadata, &memory.sources)
}

/// Scales an embedding to length 1. Fails if it is not of the store's space. If the store has no space yet, sets it.
/// `None` for an embedding without direction.
pub(crate) fn normalise(
    vector: Option<&Embedding>,
    space: &mut Option<String>,
) -> Result<Option<Vec<f32>>, MemoryError> {
    let Some(vector) = vector else {
        return Ok(None);
    };
    let stored = space.get_or_insert_with(|| vector.space.clone());
    if *stored != vector.space {
        let (stored, rejected) = (stored.clone(), vector.space.clone());
        return Err(MemoryError::EmbeddingSpaceMismatch { stored, rejected });
    }
    Ok(rank::unit(&vector.values))
}

impl MemoryStore for InMemoryStore {
    fn apply<'a>(&'a self, owner: &'a Owner, changes: ChangeSet) -> MemoryFuture<'a, ()> {
        ready(self.state.lock().apply(owner, changes)).boxed()
    }

    fn search<'a>(
        &'a self,
        owner: &'a Owner,
        query: &'a SearchQuery,
    ) -> MemoryFuture<'a, Vec<SearchHit>> {
        ready(self.state.lock().search(owner, query)).boxed()
    }

    fn get<'a>(&'a self, owner: &'a Owner, id: MemoryId) -> MemoryFuture<'a, Option<Memory>> {
        let state = self.state.lock();
        let found = state.owners.get(owner).and_then(|memories| memories.get(&id));
        ready(Ok(found.map(|stored| stored.memory.clone()))).boxed()
    }

    fn list<'a>(
        &'a self,
        owner: &'a Owner,
        request: &'a ListRequest,
    ) -> MemoryFuture<'a, MemoryPage> {
        ready(Ok(self.state.lock().list(owner, request))).boxed()
    }

    fn count<'a>(&'a self, owner: &'a Owner) -> MemoryFuture<'a, u64> {
        let state = self.state.lock();
        let memories = state.owners.get(owner).into_iter().flat_map(BTreeMap::values);
        let count = memories.filter(|stored| stored.memory.superseded_by.is_none()).count();
        ready(Ok(count as u64)).boxed()
    }

    fn delete<'a>(&'a self, owner: &'a Owner, scope: &'a DeleteScope) -> MemoryFuture<'a, u64> {
        ready(Ok(self.state.lock().delete(owner, scope))).boxed()
    }

    fn enqueue<'a>(
        &'a self,
        owner: &'a Owner,
        conversation: Conversation,
        now: Timestamp,
    ) -> MemoryFuture<'a, Option<u64>> {
        let valid = conversation.check();
        let queued = valid.map(|()| self.state.lock().queue.enqueue(owner, conversation, now));
        ready(queued).boxed()
    }

    fn claim(&self, now: Timestamp, lease: Duration) -> MemoryFuture<'_, ClaimResult> {
        ready(Ok(self.state.lock().queue.claim(now, lease))).boxed()
    }

    fn schedule_retry(&self, claim: JobClaim, retry: JobRetry) -> MemoryFuture<'_, bool> {
        ready(Ok(self.state.lock().queue.schedule_retry(claim, retry))).boxed()
    }

    fn make_due(&self, now: Timestamp) -> MemoryFuture<'_, ()> {
        self.state.lock().queue.make_due(now);
        ready(Ok(())).boxed()
    }

    fn jobs<'a>(&'a self, owner: &'a Owner) -> MemoryFuture<'a, Vec<JobStatus>> {
        ready(Ok(self.state.lock().queue.statuses(owner))).boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn it_conforms() {
        let store: Arc<dyn MemoryStore> = Arc::new(InMemoryStore::new());
        crate::conformance::all(|| Arc::clone(&store)).await.unwrap();
    }
}
