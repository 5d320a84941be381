//! A store in this process's memory: exact, without a file, gone with the process.
//!
//! It looks at every memory of the owner, so it is also what approximate stores are measured against.

mod queue;

use std::collections::{BTreeMap, HashMap};
use std::future::ready;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures::FutureExt;
use provost_core::{MemoryId, Timestamp};

use self::queue::Queue;
use crate::MemoryError;
use crate::job::{Claim, Conversation, JobInfo, JobKey, Postponed};
use crate::memory::{Memory, Owner, Source, check_details, check_text};
use crate::rank::{self, Lexicon, Words};
use crate::store::{
    Batch, Change, Entry, Forget, Found, Listing, MemoryFuture, MemoryStore, PAGE_MAX, Page, Query,
    Update, Vector,
};

/// A store in this process's memory.
#[derive(Debug, Default)]
pub struct InMemoryStore {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    owners: HashMap<Owner, BTreeMap<MemoryId, Kept>>,
    /// Whose vectors are here.
    space: Option<String>,
    queue: Queue,
}

#[derive(Debug, Clone)]
struct Kept {
    memory: Memory,
    vector: Option<Vec<f32>>,
    words: Words,
}

impl InMemoryStore {
    /// An empty store.
    pub fn new() -> Self {
        Self::default()
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn apply(&mut self, owner: &Owner, batch: Batch) -> Result<(), MemoryError> {
        if let Some(key) = batch.done
            && !self.queue.holds_for(owner, key)
        {
            return Err(MemoryError::JobGone(key.job));
        }
        let mut shelf = Shelf { kept: self.owners.get(owner), touched: BTreeMap::new() };
        let mut space = self.space.clone();
        for change in batch.changes {
            shelf.change(owner, change, &mut space)?;
        }
        let touched = shelf.touched;
        self.owners.entry(owner.clone()).or_default().extend(touched);
        self.space = space;
        if let Some(key) = batch.done {
            self.queue.done(key);
        }
        Ok(())
    }

    fn search(&self, owner: &Owner, query: &Query) -> Result<Vec<Found>, MemoryError> {
        let vector = accept(query.vector.as_ref(), &mut self.space.clone())?;
        let Some(shelf) = self.owners.get(owner) else {
            return Ok(Vec::new());
        };
        let current: Vec<&Kept> =
            shelf.values().filter(|kept| kept.memory.superseded_by.is_none()).collect();
        let asked = rank::query_words(&query.text);
        let holds = |kept: &Kept, word: &u64| kept.words.distinct.binary_search(word).is_ok();
        let holders: Vec<usize> = asked
            .iter()
            .map(|word| current.iter().filter(|kept| holds(kept, word)).count())
            .collect();
        let all: u64 = current.iter().map(|kept| u64::from(kept.words.count)).sum();
        let average = all as f32 / current.len().max(1) as f32;
        let lexicon = Lexicon::new(&holders, current.len(), average);
        let mut found: Vec<Found> = current
            .into_iter()
            .filter(|kept| query.filter.passes(&kept.memory))
            .map(|kept| {
                let held = asked.iter().enumerate().filter(|(_, word)| holds(kept, word));
                let words: f32 =
                    held.map(|(place, _)| lexicon.score(place, kept.words.count)).sum();
                let meaning = vector
                    .as_ref()
                    .map(|asked| kept.vector.as_ref().map_or(0.0, |kept| rank::dot(asked, kept)));
                let words = (!asked.is_empty()).then_some(words);
                let score = rank::combine(meaning, words, query.weight());
                Found { memory: kept.memory.clone(), score }
            })
            .filter(|found| found.score > 0.0 && found.score >= query.threshold)
            .collect();
        found.sort_by(|a, b| b.score.total_cmp(&a.score).then(b.memory.id.cmp(&a.memory.id)));
        found.truncate(query.wanted());
        Ok(found)
    }

    fn list(&self, owner: &Owner, page: &Page) -> Listing {
        let limit = page.limit.clamp(1, PAGE_MAX);
        let shelf = self.owners.get(owner);
        let all = shelf.into_iter().flat_map(|shelf| shelf.values().rev());
        let mut memories: Vec<Memory> = all
            .map(|kept| &kept.memory)
            .filter(|memory| page.after.is_none_or(|after| memory.id < after))
            .filter(|memory| page.history || memory.superseded_by.is_none())
            .filter(|memory| page.filter.passes(memory))
            .take(limit + 1)
            .cloned()
            .collect();
        let more = memories.len() > limit;
        memories.truncate(limit);
        let next = memories.last().filter(|_| more).map(|last| last.id);
        Listing { memories, next }
    }

    fn forget(&mut self, owner: &Owner, what: &Forget) -> u64 {
        self.queue.forget(owner, what);
        let Some(shelf) = self.owners.get_mut(owner) else {
            return 0;
        };
        let from =
            |kept: &Kept, from: &dyn Fn(&Source) -> bool| kept.memory.sources.iter().any(from);
        let mut going: Vec<MemoryId> = shelf
            .iter()
            .filter(|(id, kept)| match what {
                Forget::Memory(memory) => *id == memory,
                Forget::Session(session) => from(kept, &|source| source.session == *session),
                Forget::Message(message) => from(kept, &|source| source == message),
                Forget::Everything => true,
            })
            .map(|(id, _)| *id)
            .collect();
        let mut gone = 0;
        while let Some(id) = going.pop() {
            if shelf.remove(&id).is_some() {
                gone += 1;
                let history = shelf.values().filter(|kept| kept.memory.superseded_by == Some(id));
                going.extend(history.map(|kept| kept.memory.id));
            }
        }
        if *what == Forget::Everything {
            self.owners.remove(owner);
        }
        gone
    }
}

/// The memories of one owner with changes that are not made yet.
struct Shelf<'a> {
    kept: Option<&'a BTreeMap<MemoryId, Kept>>,
    touched: BTreeMap<MemoryId, Kept>,
}

impl Shelf<'_> {
    fn change(
        &mut self,
        owner: &Owner,
        change: Change,
        space: &mut Option<String>,
    ) -> Result<(), MemoryError> {
        match change {
            Change::Add(entry) => self.add(owner, *entry, space),
            Change::Update(update) => self.update(*update, space),
            Change::Supersede { old, new } => {
                let mut kept = self.current(old)?;
                kept.memory.superseded_by = Some(new.memory.id);
                self.touched.insert(old, kept);
                self.add(owner, *new, space)
            }
        }
    }

    fn add(
        &mut self,
        owner: &Owner,
        entry: Entry,
        space: &mut Option<String>,
    ) -> Result<(), MemoryError> {
        let Entry { mut memory, vector } = entry;
        check_entry(owner, &memory)?;
        memory.sources.sort();
        memory.sources.dedup();
        if self.find(memory.id).is_some() {
            return Err(MemoryError::Invalid(format!("memory {} exists already", memory.id)));
        }
        let vector = accept(vector.as_ref(), space)?;
        let words = rank::words(&memory.text);
        self.touched.insert(memory.id, Kept { memory, vector, words });
        Ok(())
    }

    fn update(&mut self, update: Update, space: &mut Option<String>) -> Result<(), MemoryError> {
        let mut kept = self.current(update.id)?;
        revise(&mut kept.memory, &update)?;
        kept.vector = accept(update.vector.as_ref(), space)?;
        kept.words = rank::words(&kept.memory.text);
        self.touched.insert(update.id, kept);
        Ok(())
    }

    fn find(&self, id: MemoryId) -> Option<&Kept> {
        self.touched.get(&id).or_else(|| self.kept?.get(&id))
    }

    fn current(&self, id: MemoryId) -> Result<Kept, MemoryError> {
        match self.find(id) {
            None => Err(MemoryError::NotFound(id)),
            Some(kept) if kept.memory.superseded_by.is_some() => Err(MemoryError::Superseded(id)),
            Some(kept) => Ok(kept.clone()),
        }
    }
}

/// Refuses an entry that is not the owner's or too large.
pub(crate) fn check_entry(owner: &Owner, memory: &Memory) -> Result<(), MemoryError> {
    if memory.owner != *owner {
        return Err(MemoryError::Invalid("the memory belongs to another owner".into()));
    }
    check_text(&memory.text)?;
    check_details(&memory.metadata, &memory.sources)
}

/// Makes the change of an update, except for the vector.
pub(crate) fn revise(memory: &mut Memory, update: &Update) -> Result<(), MemoryError> {
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

/// The vector with length one, if it is of the store's space; the first vector decides which that is.
pub(crate) fn accept(
    vector: Option<&Vector>,
    space: &mut Option<String>,
) -> Result<Option<Vec<f32>>, MemoryError> {
    let Some(vector) = vector else {
        return Ok(None);
    };
    let stored = space.get_or_insert_with(|| vector.space.clone());
    if *stored != vector.space {
        let (stored, given) = (stored.clone(), vector.space.clone());
        return Err(MemoryError::Space { stored, given });
    }
    Ok(rank::unit(&vector.values))
}

impl MemoryStore for InMemoryStore {
    fn apply<'a>(&'a self, owner: &'a Owner, batch: Batch) -> MemoryFuture<'a, ()> {
        ready(self.lock().apply(owner, batch)).boxed()
    }

    fn search<'a>(&'a self, owner: &'a Owner, query: &'a Query) -> MemoryFuture<'a, Vec<Found>> {
        ready(self.lock().search(owner, query)).boxed()
    }

    fn get<'a>(&'a self, owner: &'a Owner, id: MemoryId) -> MemoryFuture<'a, Option<Memory>> {
        let state = self.lock();
        let kept = state.owners.get(owner).and_then(|shelf| shelf.get(&id));
        ready(Ok(kept.map(|kept| kept.memory.clone()))).boxed()
    }

    fn list<'a>(&'a self, owner: &'a Owner, page: &'a Page) -> MemoryFuture<'a, Listing> {
        ready(Ok(self.lock().list(owner, page))).boxed()
    }

    fn count<'a>(&'a self, owner: &'a Owner) -> MemoryFuture<'a, u64> {
        let state = self.lock();
        let shelf = state.owners.get(owner).into_iter().flat_map(BTreeMap::values);
        let count = shelf.filter(|kept| kept.memory.superseded_by.is_none()).count();
        ready(Ok(count as u64)).boxed()
    }

    fn forget<'a>(&'a self, owner: &'a Owner, what: &'a Forget) -> MemoryFuture<'a, u64> {
        ready(Ok(self.lock().forget(owner, what))).boxed()
    }

    fn enqueue<'a>(
        &'a self,
        owner: &'a Owner,
        conversation: Conversation,
        now: Timestamp,
    ) -> MemoryFuture<'a, Option<u64>> {
        let checked = conversation.check();
        let queued = checked.map(|()| self.lock().queue.enqueue(owner, conversation, now));
        ready(queued).boxed()
    }

    fn claim(&self, now: Timestamp, lease: Duration) -> MemoryFuture<'_, Claim> {
        ready(Ok(self.lock().queue.claim(now, lease))).boxed()
    }

    fn postpone(&self, key: JobKey, postponed: Postponed) -> MemoryFuture<'_, bool> {
        ready(Ok(self.lock().queue.postpone(key, postponed))).boxed()
    }

    fn hurry(&self, now: Timestamp) -> MemoryFuture<'_, ()> {
        self.lock().queue.hurry(now);
        ready(Ok(())).boxed()
    }

    fn jobs<'a>(&'a self, owner: &'a Owner) -> MemoryFuture<'a, Vec<JobInfo>> {
        ready(Ok(self.lock().queue.infos(owner))).boxed()
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
