//! The trait every memory store implements, and the words it speaks.
//!
//! Every call names the owner. An id of somebody else's memory is an id that does not exist.

use std::time::Duration;

use futures::future::BoxFuture;
use provost_core::{MemoryId, Timestamp};
use serde_json::{Map, Value};

use crate::MemoryError;
use crate::job::{Claim, Conversation, JobInfo, JobKey, Postponed};
use crate::memory::{Category, Memory, Owner, Source};
use crate::rank::VECTOR_WEIGHT_DEFAULT;

/// Memories one search can give.
pub const SEARCH_LIMIT_MAX: usize = 1000;
/// Memories one page of a listing can hold.
pub const PAGE_MAX: usize = 1000;

/// What a store's call gives.
pub type MemoryFuture<'a, T> = BoxFuture<'a, Result<T, MemoryError>>;

/// A vector and the space it lives in: only vectors of one embedder can be compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Vector {
    /// The embedder's [`space`](provost_model::EmbedderInfo::space).
    pub space: String,
    /// The numbers.
    pub values: Vec<f32>,
}

/// A memory with its vector.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// The memory.
    pub memory: Memory,
    /// Its vector; without one it is found by words only.
    pub vector: Option<Vector>,
}

/// A change of a memory's text, in place.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// Which memory.
    pub id: MemoryId,
    /// The new text.
    pub text: String,
    /// The new vector.
    pub vector: Option<Vector>,
    /// The new category; `None` keeps the old one.
    pub category: Option<Category>,
    /// Values that are added to the metadata or take the place of old ones.
    pub metadata: Map<String, Value>,
    /// The messages the change comes from, besides the old ones.
    pub sources: Vec<Source>,
    /// When.
    pub at: Timestamp,
}

/// One change of an owner's memories.
#[derive(Debug, Clone, PartialEq)]
pub enum Change {
    /// Something new.
    Add(Box<Entry>),
    /// Better words for something that is there.
    Update(Box<Update>),
    /// Something new that contradicts what is there: the old one is kept as history and no longer found.
    Supersede {
        /// The old one.
        old: MemoryId,
        /// The new one.
        new: Box<Entry>,
    },
}

/// Changes that happen together or not at all.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Batch {
    /// The changes, in order.
    pub changes: Vec<Change>,
    /// The extraction job that is done with them: it goes, and its session counts as read up to its end.
    /// If somebody else has taken the job over, nothing happens and [`MemoryError::JobGone`] says so.
    pub done: Option<JobKey>,
}

/// What is forgotten. Forgetting a memory also forgets the ones it superseded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Forget {
    /// One memory.
    Memory(MemoryId),
    /// Everything that came from a session, extraction that has not happened yet included.
    Session(String),
    /// Everything that came from one message.
    Message(Source),
    /// Everything of the owner. What stays is how far each session was read, so that nothing comes back.
    Everything,
}

/// Which memories are looked at.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Filter {
    /// Only of this category.
    pub category: Option<Category>,
    /// Only with these values in the metadata.
    pub metadata: Map<String, Value>,
    /// Only those that hold since then or later.
    pub since: Option<Timestamp>,
}

impl Filter {
    /// True if everything passes.
    pub fn is_empty(&self) -> bool {
        self.category.is_none() && self.metadata.is_empty() && self.since.is_none()
    }

    /// True if this memory passes.
    pub fn passes(&self, memory: &Memory) -> bool {
        self.category.is_none_or(|category| memory.category == Some(category))
            && self.since.is_none_or(|since| memory.valid_from >= since)
            && self.metadata.iter().all(|(key, value)| memory.metadata.get(key) == Some(value))
    }
}

/// What is looked for.
#[derive(Debug, Clone, PartialEq)]
pub struct Query {
    /// Words; empty means that only meaning counts.
    pub text: String,
    /// Meaning; `None` means that only words count.
    pub vector: Option<Vector>,
    /// How many are wanted.
    pub limit: usize,
    /// The lowest score that is good enough. What shares nothing with the query is never found.
    pub threshold: f32,
    /// Which memories are looked at.
    pub filter: Filter,
    /// How much meaning counts against words, from 0 to 1.
    pub vector_weight: f32,
}

impl Default for Query {
    fn default() -> Self {
        Self {
            text: String::new(),
            vector: None,
            limit: 5,
            threshold: 0.0,
            filter: Filter::default(),
            vector_weight: VECTOR_WEIGHT_DEFAULT,
        }
    }
}

impl Query {
    /// Words to look for.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// The number of memories that are given at most.
    pub(crate) fn wanted(&self) -> usize {
        self.limit.min(SEARCH_LIMIT_MAX)
    }

    /// The weight of meaning, as a number that can be counted with.
    pub(crate) fn weight(&self) -> f32 {
        if self.vector_weight.is_nan() {
            VECTOR_WEIGHT_DEFAULT
        } else {
            self.vector_weight.clamp(0.0, 1.0)
        }
    }
}

/// A memory that was found.
#[derive(Debug, Clone, PartialEq)]
pub struct Found {
    /// The memory.
    pub memory: Memory,
    /// How well it answers, from 0 to 1.
    pub score: f32,
}

/// A page of a listing, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Where the page before ended.
    pub after: Option<MemoryId>,
    /// How many at most.
    pub limit: usize,
    /// Whether superseded memories are listed, too.
    pub history: bool,
    /// Which memories are listed.
    pub filter: Filter,
}

impl Default for Page {
    fn default() -> Self {
        Self { after: None, limit: 100, history: false, filter: Filter::default() }
    }
}

/// One page.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Listing {
    /// The memories, newest first.
    pub memories: Vec<Memory>,
    /// Where the next page begins; `None` on the last one.
    pub next: Option<MemoryId>,
}

/// Where memories are kept, and what is still to be extracted from conversations.
pub trait MemoryStore: Send + Sync + 'static {
    /// Makes changes, all of them or none. When it returns, a crash can no longer lose them.
    ///
    /// An id that the owner does not have is [`MemoryError::NotFound`], one that was superseded
    /// [`MemoryError::Superseded`]; then nothing has changed.
    fn apply<'a>(&'a self, owner: &'a Owner, batch: Batch) -> MemoryFuture<'a, ()>;

    /// What answers a query, best first.
    fn search<'a>(&'a self, owner: &'a Owner, query: &'a Query) -> MemoryFuture<'a, Vec<Found>>;

    /// One memory, superseded or not.
    fn get<'a>(&'a self, owner: &'a Owner, id: MemoryId) -> MemoryFuture<'a, Option<Memory>>;

    /// A page of memories.
    fn list<'a>(&'a self, owner: &'a Owner, page: &'a Page) -> MemoryFuture<'a, Listing>;

    /// How many memories the owner has, without history.
    fn count<'a>(&'a self, owner: &'a Owner) -> MemoryFuture<'a, u64>;

    /// Forgets for good and says how many memories went, history included.
    fn forget<'a>(&'a self, owner: &'a Owner, what: &'a Forget) -> MemoryFuture<'a, u64>;

    /// Queues what of a conversation was neither extracted nor queued yet; the job's number, or `None` if that is nothing.
    /// When it returns, a crash can no longer lose it.
    fn enqueue<'a>(
        &'a self,
        owner: &'a Owner,
        conversation: Conversation,
        now: Timestamp,
    ) -> MemoryFuture<'a, Option<u64>>;

    /// Takes the oldest job that is due, for so long. The jobs of one owner are done one after the other.
    fn claim(&self, now: Timestamp, lease: Duration) -> MemoryFuture<'_, Claim>;

    /// Gives a job back, to be tried again later or never. False if it was not the caller's any more.
    fn postpone(&self, key: JobKey, postponed: Postponed) -> MemoryFuture<'_, bool>;

    /// Makes jobs that wait for another try due now.
    fn hurry(&self, now: Timestamp) -> MemoryFuture<'_, ()>;

    /// The owner's jobs, oldest first, those that were given up included.
    fn jobs<'a>(&'a self, owner: &'a Owner) -> MemoryFuture<'a, Vec<JobInfo>>;
}
