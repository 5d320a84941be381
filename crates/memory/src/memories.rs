//! What programs use: a store with an embedder.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use provost_core::text::first_bytes;
use provost_core::{Env, MemoryId, Usage};
use provost_model::{Embedder, Purpose};
use serde_json::{Map, Value};

use crate::MemoryError;
use crate::memory::{Category, Memory, NewMemory, Owner, Source};
use crate::store::{
    Batch, Change, Entry, Forget, Found, Listing, MemoryStore, Page, Query, Update, Vector,
};

/// Bytes of a query's text that its meaning is taken from.
const QUERY_BYTES_MAX: usize = 8 * 1024;

/// A change of a memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Edit {
    /// The new text.
    pub text: String,
    /// The new category; `None` keeps the old one.
    pub category: Option<Category>,
    /// Values that are added to the metadata or take the place of old ones.
    pub metadata: Map<String, Value>,
    /// The messages the change comes from, besides the old ones.
    pub sources: Vec<Source>,
}

impl Edit {
    /// Another text.
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: text.into(), ..Self::default() }
    }
}

/// Memories of all owners: a store, and an embedder that lets them be found by meaning. Cheap to clone.
///
/// ```
/// # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
/// use std::sync::Arc;
/// use provost_memory::{InMemoryStore, Memories, NewMemory, Owner, Query};
/// use provost_model::HashEmbedder;
///
/// let memories = Memories::new(Arc::new(InMemoryStore::new()), Arc::new(HashEmbedder::new(64)));
/// let anna = Owner::new("anna")?;
/// memories.add(&anna, NewMemory::new("Drinks green tea in the morning")).await?;
/// let found = memories.search(&anna, Query::text("Which tea does she like?")).await?;
/// assert_eq!(found[0].memory.text, "Drinks green tea in the morning");
/// # Ok::<_, provost_memory::MemoryError>(())
/// # }).unwrap();
/// ```
#[derive(Clone)]
pub struct Memories {
    store: Arc<dyn MemoryStore>,
    embedder: Option<Arc<dyn Embedder>>,
    env: Env,
    usage: Arc<Mutex<Usage>>,
}

impl Memories {
    /// Memories that are found by words and by meaning.
    pub fn new(store: Arc<dyn MemoryStore>, embedder: Arc<dyn Embedder>) -> Self {
        Self { embedder: Some(embedder), ..Self::by_words(store) }
    }

    /// Memories that are found by words only.
    pub fn by_words(store: Arc<dyn MemoryStore>) -> Self {
        Self { store, embedder: None, env: Env::system(), usage: Arc::default() }
    }

    /// Takes time and chance from here.
    #[must_use]
    pub fn env(mut self, env: Env) -> Self {
        self.env = env;
        self
    }

    /// The store.
    pub fn store(&self) -> &Arc<dyn MemoryStore> {
        &self.store
    }

    /// The clock.
    pub(crate) fn clock(&self) -> &Env {
        &self.env
    }

    /// What the embedder has used so far.
    pub fn usage(&self) -> Usage {
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers something.
    pub async fn add(&self, owner: &Owner, new: NewMemory) -> Result<MemoryId, MemoryError> {
        let ids = self.add_all(owner, vec![new]).await?;
        ids.first().copied().ok_or_else(|| MemoryError::Bug("nothing was added".into()))
    }

    /// Remembers several things, all or none; the ids are in the order of the things.
    pub async fn add_all(
        &self,
        owner: &Owner,
        new: Vec<NewMemory>,
    ) -> Result<Vec<MemoryId>, MemoryError> {
        let entries = self.entries(owner, new).await?;
        let ids = entries.iter().map(|entry| entry.memory.id).collect();
        let changes = entries.into_iter().map(|entry| Change::Add(Box::new(entry))).collect();
        self.store.apply(owner, Batch { changes, done: None }).await?;
        Ok(ids)
    }

    /// What answers a query, best first. A query without a vector gets the one of its text.
    pub async fn search(&self, owner: &Owner, mut query: Query) -> Result<Vec<Found>, MemoryError> {
        if query.vector.is_none() && !query.text.trim().is_empty() {
            // What an embedder reads is bounded, and so is what a long question can mean.
            let texts = [first_bytes(&query.text, QUERY_BYTES_MAX).to_owned()];
            query.vector = self.vectors(&texts, Purpose::Query).await?.pop().flatten();
        }
        self.store.search(owner, &query).await
    }

    /// One memory, superseded or not.
    pub async fn get(&self, owner: &Owner, id: MemoryId) -> Result<Option<Memory>, MemoryError> {
        self.store.get(owner, id).await
    }

    /// A page of memories, newest first.
    pub async fn list(&self, owner: &Owner, page: &Page) -> Result<Listing, MemoryError> {
        self.store.list(owner, page).await
    }

    /// How many memories the owner has, without history.
    pub async fn count(&self, owner: &Owner) -> Result<u64, MemoryError> {
        self.store.count(owner).await
    }

    /// Changes a memory in place.
    pub async fn update(&self, owner: &Owner, id: MemoryId, edit: Edit) -> Result<(), MemoryError> {
        let change = self.updated(id, edit).await?;
        self.store.apply(owner, Batch { changes: vec![change], done: None }).await
    }

    /// Puts a new memory in the place of one it contradicts. The old one is kept as history and not found any more.
    pub async fn supersede(
        &self,
        owner: &Owner,
        old: MemoryId,
        new: NewMemory,
    ) -> Result<MemoryId, MemoryError> {
        let change = self.superseded(owner, old, new).await?;
        let Change::Supersede { new, .. } = &change else {
            return Err(MemoryError::Bug("a change became another".into()));
        };
        let id = new.memory.id;
        self.store.apply(owner, Batch { changes: vec![change], done: None }).await?;
        Ok(id)
    }

    /// Forgets for good and says how many memories went, history included.
    pub async fn forget(&self, owner: &Owner, what: &Forget) -> Result<u64, MemoryError> {
        self.store.forget(owner, what).await
    }

    /// New memories with ids and vectors.
    pub(crate) async fn entries(
        &self,
        owner: &Owner,
        new: Vec<NewMemory>,
    ) -> Result<Vec<Entry>, MemoryError> {
        for memory in &new {
            crate::memory::check_text(&memory.text)?;
        }
        let texts: Vec<String> = new.iter().map(|memory| memory.text.clone()).collect();
        let vectors = self.vectors(&texts, Purpose::Document).await?;
        let now = self.env.now();
        let entry = |(new, vector): (NewMemory, Option<Vector>)| Entry {
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
        Ok(new.into_iter().zip(vectors).map(entry).collect())
    }

    /// The change that an edit is.
    pub(crate) async fn updated(&self, id: MemoryId, edit: Edit) -> Result<Change, MemoryError> {
        crate::memory::check_text(&edit.text)?;
        let texts = [edit.text.clone()];
        let vector = self.vectors(&texts, Purpose::Document).await?.pop().flatten();
        let Edit { text, category, metadata, sources } = edit;
        let at = self.env.now();
        Ok(Change::Update(Box::new(Update { id, text, vector, category, metadata, sources, at })))
    }

    /// The change that a new memory in the place of an old one is.
    pub(crate) async fn superseded(
        &self,
        owner: &Owner,
        old: MemoryId,
        new: NewMemory,
    ) -> Result<Change, MemoryError> {
        let mut entries = self.entries(owner, vec![new]).await?;
        let new = entries.pop().ok_or_else(|| MemoryError::Bug("an entry is missing".into()))?;
        Ok(Change::Supersede { old, new: Box::new(new) })
    }

    /// The vectors of texts; none of them without an embedder.
    async fn vectors(
        &self,
        texts: &[String],
        purpose: Purpose,
    ) -> Result<Vec<Option<Vector>>, MemoryError> {
        let Some(embedder) = self.embedder.as_ref().filter(|_| !texts.is_empty()) else {
            return Ok(texts.iter().map(|_| None).collect());
        };
        let made = embedder.embed(texts, purpose).await?;
        *self.usage.lock().unwrap_or_else(PoisonError::into_inner) += made.usage;
        let info = embedder.info();
        let fits = |vector: &Vec<f32>| vector.len() == info.dimensions;
        if made.vectors.len() != texts.len() || !made.vectors.iter().all(fits) {
            let problem = format!(
                "the embedder gave {} vectors for {} texts, or some of another size than {}",
                made.vectors.len(),
                texts.len(),
                info.dimensions
            );
            return Err(MemoryError::Answer(problem));
        }
        let space = info.space();
        let vector = |values| Some(Vector { space: space.clone(), values });
        Ok(made.vectors.into_iter().map(vector).collect())
    }
}

impl fmt::Debug for Memories {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let space = self.embedder.as_ref().map(|embedder| embedder.info().space());
        f.debug_struct("Memories").field("space", &space).finish_non_exhaustive()
    }
}
