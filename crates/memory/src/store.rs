//! The trait that every memory store implements, and its request and response types.
//!
//! Every call names the owner. For a call, the memories of other owners do not exist.

use std::time::Duration;

use futures::future::BoxFuture;
use provost_core::{MemoryId, Timestamp};
use serde_json::{Map, Value};

use crate::MemoryError;
use crate::job::{ClaimResult, Conversation, JobClaim, JobRetry, JobStatus};
use crate::memory::{Memory, MemoryCategory, MemorySource, Owner};
use crate::rank::VECTOR_WEIGHT_DEFAULT;

/// Maximum number of results of one search.
pub const SEARCH_LIMIT_MAX: usize = 1000;
/// Maximum number of memories in one page of a list.
pub const PAGE_MAX: usize = 1000;

/// Future that the methods of [`MemoryStore`] return.
pub type MemoryFuture<'a, T> = BoxFuture<'a, Result<T, MemoryError>>;

/// Embedding of a text. Only embeddings of the same space can be compared.
#[derive(Debug, Clone, PartialEq)]
pub struct Embedding {
    /// The [`space`](provost_model::EmbedderInfo::space) of the embedder.
    pub space: String,
    /// Components of the vector.
    pub values: Vec<f32>,
}

/// A memory with its embedding.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryRecord {
    /// The memory.
    pub memory: Memory,
    /// Embedding of the text. Without one, searches find the memory only by its words.
    pub vector: Option<Embedding>,
}

/// New text of a stored memory, and changes of its category, metadata and sources.
#[derive(Debug, Clone, PartialEq)]
pub struct RecordUpdate {
    /// Id of the memory.
    pub id: MemoryId,
    /// The new text.
    pub text: String,
    /// Embedding of the new text.
    pub vector: Option<Embedding>,
    /// The new category; `None` leaves the category unchanged.
    pub category: Option<MemoryCategory>,
    /// Metadata values to add or replace.
    pub metadata: Map<String, Value>,
    /// Source messages to add.
    pub sources: Vec<MemorySource>,
    /// Time of the change.
    pub at: Timestamp,
}

/// One change of an owner's memories.
#[derive(Debug, Clone, PartialEq)]
pub enum MemoryChange {
    /// Adds a memory.
    Add(Box<MemoryRecord>),
    /// Replaces the text of a memory and the other values that are given.
    Update(Box<RecordUpdate>),
    /// Adds a memory that contradicts an older one. The older memory remains as history; searches no longer find it.
    Supersede {
        /// The superseded memory.
        old: MemoryId,
        /// The new memory.
        new: Box<MemoryRecord>,
    },
}

/// Changes that are applied in one transaction.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ChangeSet {
    /// The changes, in order.
    pub changes: Vec<MemoryChange>,
    /// The extraction job that the changes complete. The store deletes the job and records that its session was read
    /// up to the job's end. If the claim was lost, the store applies nothing and returns [`MemoryError::ClaimLost`].
    pub finished_job: Option<JobClaim>,
}

/// The memories to delete. Deleting a memory also deletes the memories that it superseded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeleteScope {
    /// One memory.
    Memory(MemoryId),
    /// All memories with a source in this session, and the session's queued extraction jobs.
    Session(String),
    /// All memories with this source message. Queued extraction jobs lose the message.
    Message(MemorySource),
    /// All memories and extraction jobs of the owner. The read positions of sessions remain, so that later
    /// extractions do not restore deleted facts.
    Everything,
}

/// Criteria that a memory must meet. The default matches every memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MemoryFilter {
    /// The category; `None` for every category.
    pub category: Option<MemoryCategory>,
    /// Values that the metadata must contain.
    pub metadata: Map<String, Value>,
    /// Earliest start of validity; `None` for no bound.
    pub since: Option<Timestamp>,
}

impl MemoryFilter {
    /// Returns true if the filter matches every memory.
    pub fn is_empty(&self) -> bool {
        self.category.is_none() && self.metadata.is_empty() && self.since.is_none()
    }

    /// Returns true if the memory meets all criteria.
    pub fn matches(&self, memory: &Memory) -> bool {
        self.category.is_none_or(|category| memory.category == Some(category))
            && self.since.is_none_or(|since| memory.valid_from >= since)
            && self.metadata.iter().all(|(key, value)| memory.metadata.get(key) == Some(value))
    }
}

/// A search request.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchQuery {
    /// Text whose words are compared. If it is empty, only the embedding counts.
    pub text: String,
    /// Embedding to compare. [`MemoryService::search`](crate::MemoryService::search) computes it from the text. If it
    /// is `None`, only the words count.
    pub vector: Option<Embedding>,
    /// Maximum number of results, at most [`SEARCH_LIMIT_MAX`].
    pub limit: usize,
    /// Minimum score of a result. Memories with a score of 0 are never returned.
    pub threshold: f32,
    /// Criteria that results must meet.
    pub filter: MemoryFilter,
    /// Weight of the embedding against the words, from 0 to 1.
    pub vector_weight: f32,
}

impl Default for SearchQuery {
    fn default() -> Self {
        Self {
            text: String::new(),
            vector: None,
            limit: 5,
            threshold: 0.0,
            filter: MemoryFilter::default(),
            vector_weight: VECTOR_WEIGHT_DEFAULT,
        }
    }
}

impl SearchQuery {
    /// Creates a query for a text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }

    /// Returns the limit, bounded by [`SEARCH_LIMIT_MAX`].
    pub(crate) fn bounded_limit(&self) -> usize {
        self.limit.min(SEARCH_LIMIT_MAX)
    }

    /// Returns the weight of the embedding, between 0 and 1. A weight that is not a number counts as the default.
    pub(crate) fn weight(&self) -> f32 {
        if self.vector_weight.is_nan() {
            VECTOR_WEIGHT_DEFAULT
        } else {
            self.vector_weight.clamp(0.0, 1.0)
        }
    }
}

/// A result of a search.
#[derive(Debug, Clone, PartialEq)]
pub struct SearchHit {
    /// The memory.
    pub memory: Memory,
    /// Relevance to the query, from 0 to 1.
    pub score: f32,
}

/// A request for a page of memories, newest first.
#[derive(Debug, Clone, PartialEq)]
pub struct ListRequest {
    /// Last memory of the previous page; `None` for the first page.
    pub after: Option<MemoryId>,
    /// Maximum number of memories, from 1 to [`PAGE_MAX`].
    pub limit: usize,
    /// True to include superseded memories.
    pub include_superseded: bool,
    /// Criteria that listed memories must meet.
    pub filter: MemoryFilter,
}

impl Default for ListRequest {
    fn default() -> Self {
        Self { after: None, limit: 100, include_superseded: false, filter: MemoryFilter::default() }
    }
}

/// A page of memories.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MemoryPage {
    /// The memories, newest first.
    pub memories: Vec<Memory>,
    /// The [`after`](ListRequest::after) of the next page; `None` on the last page.
    pub next: Option<MemoryId>,
}

/// Storage of memories and of the queue of extraction jobs.
pub trait MemoryStore: Send + Sync + 'static {
    /// Applies all changes in one transaction, which is on disk when the call returns.
    ///
    /// Returns [`MemoryError::NotFound`] if the owner has no memory with a named id, and [`MemoryError::Superseded`]
    /// if the memory is superseded. In both cases nothing changes.
    fn apply<'a>(&'a self, owner: &'a Owner, changes: ChangeSet) -> MemoryFuture<'a, ()>;

    /// Returns the memories that match a query, best first.
    fn search<'a>(
        &'a self,
        owner: &'a Owner,
        query: &'a SearchQuery,
    ) -> MemoryFuture<'a, Vec<SearchHit>>;

    /// Returns a memory, current or superseded; `None` if the owner has no memory with this id.
    fn get<'a>(&'a self, owner: &'a Owner, id: MemoryId) -> MemoryFuture<'a, Option<Memory>>;

    /// Returns a page of memories.
    fn list<'a>(
        &'a self,
        owner: &'a Owner,
        request: &'a ListRequest,
    ) -> MemoryFuture<'a, MemoryPage>;

    /// Returns the number of the owner's current memories.
    fn count<'a>(&'a self, owner: &'a Owner) -> MemoryFuture<'a, u64>;

    /// Deletes memories permanently. Returns the number of deleted memories, including superseded ones.
    fn delete<'a>(&'a self, owner: &'a Owner, scope: &'a DeleteScope) -> MemoryFuture<'a, u64>;

    /// Queues an extraction job for the messages of a conversation that were neither extracted nor queued before. The
    /// job is on disk when the call returns. Returns the number of the job; `None` if there is no new message of the
    /// user.
    fn enqueue<'a>(
        &'a self,
        owner: &'a Owner,
        conversation: Conversation,
        now: Timestamp,
    ) -> MemoryFuture<'a, Option<u64>>;

    /// Claims the oldest due job for the duration of the lease. The jobs of one owner run one after another.
    fn claim(&self, now: Timestamp, lease: Duration) -> MemoryFuture<'_, ClaimResult>;

    /// Releases a claimed job after a failure. Returns false if the claim was lost.
    fn schedule_retry(&self, claim: JobClaim, retry: JobRetry) -> MemoryFuture<'_, bool>;

    /// Makes all jobs due that wait for a retry.
    fn make_due(&self, now: Timestamp) -> MemoryFuture<'_, ()>;

    /// Returns the owner's jobs, oldest first, including those that were given up.
    fn jobs<'a>(&'a self, owner: &'a Owner) -> MemoryFuture<'a, Vec<JobStatus>>;
}
