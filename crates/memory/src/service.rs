//! Memory operations for programs: a store combined with an embedder.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;
use provost_core::text::first_bytes;
use provost_core::{Env, MemoryId, Usage};
use provost_model::{Embedder, EmbeddingInputType};
use serde_json::{Map, Value};

use crate::MemoryError;
use crate::memory::{Memory, MemoryCategory, MemorySource, NewMemory, Owner};
use crate::store::{
    ChangeSet, DeleteScope, Embedding, ListRequest, MemoryChange, MemoryPage, MemoryRecord,
    MemoryStore, RecordUpdate, SearchHit, SearchQuery,
};

/// Maximum length of the query text that is embedded, in bytes.
const QUERY_BYTES_MAX: usize = 8 * 1024;

/// New text of a memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MemoryUpdate {
    /// The new text.
    pub text: String,
    /// The new category; `None` leaves the category unchanged.
    pub category: Option<MemoryCategory>,
    /// Metadata values to add or replace.
    pub metadata: Map<String, Value>,
    /// Source messages to add.
    pub sources: Vec<MemorySource>,
}

impl MemoryUpdate {
    /// Creates an update that replaces the text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// Memories of all owners. An optional embedder lets searches find memories by meaning. Clones share the store.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use std::sync::Arc;
/// use provost_memory::{InMemoryStore, MemoryService, NewMemory, Owner, SearchQuery};
/// use provost_model::HashEmbedder;
///
/// let memories = MemoryService::new(Arc::new(InMemoryStore::new()), Arc::new(HashEmbedder::new(64)));
/// let anna = Owner::new("anna")?;
/// memories.add(&anna, NewMemory::new("Drinks green tea in the morning")).await?;
/// let found = memories.search(&anna, SearchQuery::text("Which tea does she like?")).await?;
/// assert_eq!(found[0].memory.text, "Drinks green tea in the morning");
/// # Ok::<_, provost_memory::MemoryError>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct MemoryService {
    store: Arc<dyn MemoryStore>,
    embedder: Option<Arc<dyn Embedder>>,
    env: Env,
    usage: Arc<Mutex<Usage>>,
}

impl MemoryService {
    /// Creates a service whose searches compare embeddings and words.
    pub fn new(store: Arc<dyn MemoryStore>, embedder: Arc<dyn Embedder>) -> Self {
        Self { embedder: Some(embedder), ..Self::without_embedder(store) }
    }

    /// Creates a service whose searches compare words only.
    pub fn without_embedder(store: Arc<dyn MemoryStore>) -> Self {
        Self { store, embedder: None, env: Env::system(), usage: Arc::default() }
    }

    /// Sets the source of time and ids.
    #[must_use]
    pub fn env(mut self, env: Env) -> Self {
        self.env = env;
        self
    }

    /// Returns the store.
    pub fn store(&self) -> &Arc<dyn MemoryStore> {
        &self.store
    }

    /// Returns the source of time and ids.
    pub(crate) fn clock(&self) -> &Env {
        &self.env
    }

    /// Returns the usage of the embedder since this service was created.
    pub fn usage(&self) -> Usage {
        *self.usage.lock()
    }

    /// Stores a memory and returns its id.
    pub async fn add(&self, owner: &Owner, new: NewMemory) -> Result<MemoryId, MemoryError> {
        let ids = self.add_all(owner, vec![new]).await?;
        ids.first().copied().ok_or_else(|| MemoryError::Bug("no memory was added".into()))
    }

    /// Stores memories in one transaction and returns their ids in the same order.
    pub async fn add_all(
        &self,
        owner: &Owner,
        new: Vec<NewMemory>,
    ) -> Result<Vec<MemoryId>, MemoryError> {
        let records = self.records(owner, new).await?;
        let ids = records.iter().map(|record| record.memory.id).collect();
        let changes =
            records.into_iter().map(|record| MemoryChange::Add(Box::new(record))).collect();
        self.store.apply(owner, ChangeSet { changes, finished_job: None }).await?;
        Ok(ids)
    }

    /// Returns the memories that match a query, best first. If the query has no embedding, the service embeds its text.
    pub async fn search(
        &self,
        owner: &Owner,
        mut query: SearchQuery,
    ) -> Result<Vec<SearchHit>, MemoryError> {
        if query.vector.is_none() && !query.text.trim().is_empty() {
            // Embedders limit the length of their input.
            let texts = [first_bytes(&query.text, QUERY_BYTES_MAX).to_owned()];
            query.vector = self.embed(&texts, EmbeddingInputType::Query).await?.pop().flatten();
        }
        self.store.search(owner, &query).await
    }

    /// Returns a memory, current or superseded; `None` if the owner has no memory with this id.
    pub async fn get(&self, owner: &Owner, id: MemoryId) -> Result<Option<Memory>, MemoryError> {
        self.store.get(owner, id).await
    }

    /// Returns a page of memories, newest first.
    pub async fn list(
        &self,
        owner: &Owner,
        request: &ListRequest,
    ) -> Result<MemoryPage, MemoryError> {
        self.store.list(owner, request).await
    }

    /// Returns the number of the owner's current memories.
    pub async fn count(&self, owner: &Owner) -> Result<u64, MemoryError> {
        self.store.count(owner).await
    }

    /// Replaces the text of a memory.
    pub async fn update(
        &self,
        owner: &Owner,
        id: MemoryId,
        update: MemoryUpdate,
    ) -> Result<(), MemoryError> {
        let change = self.update_change(id, update).await?;
        self.store.apply(owner, ChangeSet { changes: vec![change], finished_job: None }).await
    }

    /// Stores a memory that contradicts the memory `old`, and returns the id of the new memory. The old memory
    /// remains as history; searches no longer find it.
    pub async fn supersede(
        &self,
        owner: &Owner,
        old: MemoryId,
        new: NewMemory,
    ) -> Result<MemoryId, MemoryError> {
        let change = self.supersede_change(owner, old, new).await?;
        let MemoryChange::Supersede { new, .. } = &change else {
            return Err(MemoryError::Bug("the change is not a supersede change".into()));
        };
        let id = new.memory.id;
        self.store.apply(owner, ChangeSet { changes: vec![change], finished_job: None }).await?;
        Ok(id)
    }

    /// Deletes memories permanently. Returns the number of deleted memories, including superseded ones.
    pub async fn delete(&self, owner: &Owner, scope: &DeleteScope) -> Result<u64, MemoryError> {
        self.store.delete(owner, scope).await
    }

    /// Assigns ids to new memories and computes their embeddings.
    pub(crate) async fn records(
        &self,
        owner: &Owner,
        new: Vec<NewMemory>,
    ) -> Result<Vec<MemoryRecord>, MemoryError> {
        for memory in &new {
            crate::memory::check_text(&memory.text)?;
        }
        let texts: Vec<String> = new.iter().map(|memory| memory.text.clone()).collect();
        let vectors = self.embed(&texts, EmbeddingInputType::Document).await?;
        let now = self.env.now();
        let record = |(new, vector): (NewMemory, Option<Embedding>)| MemoryRecord {
            memory: Memory {
                id: self.env.id(),
                owner: owner.clone(),
                text: new.text,
                category: new.category,
                metadata: new.metadata,
                sources: new.sources,
                created_at: now,
                updated_at: now,
                valid_from: new.valid_from.unwrap_or(now),
                superseded_by: None,
            },
            vector,
        };
        Ok(new.into_iter().zip(vectors).map(record).collect())
    }

    /// Computes the embedding of an update and returns the change.
    pub(crate) async fn update_change(
        &self,
        id: MemoryId,
        update: MemoryUpdate,
    ) -> Result<MemoryChange, MemoryError> {
        crate::memory::check_text(&update.text)?;
        let texts = [update.text.clone()];
        let vector = self.embed(&texts, EmbeddingInputType::Document).await?.pop().flatten();
        let MemoryUpdate { text, category, metadata, sources } = update;
        let at = self.env.now();
        Ok(MemoryChange::Update(Box::new(RecordUpdate {
            id,
            text,
            vector,
            category,
            metadata,
            sources,
            at,
        })))
    }

    /// Computes the embedding of a superseding memory and returns the change.
    pub(crate) async fn supersede_change(
        &self,
        owner: &Owner,
        old: MemoryId,
        new: NewMemory,
    ) -> Result<MemoryChange, MemoryError> {
        let mut records = self.records(owner, vec![new]).await?;
        let new = records.pop().ok_or_else(|| MemoryError::Bug("a record is missing".into()))?;
        Ok(MemoryChange::Supersede { old, new: Box::new(new) })
    }

    /// Returns the embedding of each text; `None` for every text if there is no embedder.
    async fn embed(
        &self,
        texts: &[String],
        purpose: EmbeddingInputType,
    ) -> Result<Vec<Option<Embedding>>, MemoryError> {
        let Some(embedder) = self.embedder.as_ref().filter(|_| !texts.is_empty()) else {
            return Ok(texts.iter().map(|_| None).collect());
        };
        let response = embedder.embed(texts, purpose).await?;
        *self.usage.lock() += response.usage;
        let info = embedder.info();
        let has_dimensions = |vector: &Vec<f32>| vector.len() == info.dimensions;
        if response.vectors.len() != texts.len() || !response.vectors.iter().all(has_dimensions) {
            let problem = format!(
                "the embedder returned {} vectors for {} texts, or vectors without {} dimensions",
                response.vectors.len(),
                texts.len(),
                info.dimensions
            );
            return Err(MemoryError::InvalidResponse(problem));
        }
        let space = info.space();
        let vector = |values| Some(Embedding { space: space.clone(), values });
        Ok(response.vectors.into_iter().map(vector).collect())
    }
}

impl fmt::Debug for MemoryService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = self.embedder.as_ref().map(|embedder| embedder.info().space());
        f.debug_struct("MemoryService").field("space", &space).finish_non_exhaustive()
    }
}
