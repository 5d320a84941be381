//! A store in one SQLite file: words in FTS5, vectors as bytes, and an index of the vectors in this process's memory.
//!
//! All that matters is in the file; the index is rebuilt from it and follows it, also where other processes write.

mod index;
mod job;
mod read;
mod search;
mod write;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use provost_core::{MemoryId, Timestamp};
use provost_failpoint::failpoint;
use provost_store::{FaultPoint, Faults, Schema, Store, StoreError, StoreOptions, Tx};

use self::index::Indexes;
use crate::MemoryError;
use crate::job::{Claim, Conversation, JobInfo, JobKey, Postponed};
use crate::memory::{Memory, Owner};
use crate::store::{Batch, Forget, Found, Listing, MemoryFuture, MemoryStore, Page, Query};

/// Bytes of vectors that are held in memory unless the options say otherwise.
const INDEX_BYTES_DEFAULT: usize = 512 << 20;
/// How long another process may hold the file unless the options say otherwise.
const BUSY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// Where and how memories are kept.
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// The file; it and its directory are created as needed, readable by their owner only.
    pub path: PathBuf,
    /// Bytes of vectors held in memory, of all owners together. Those not used for longest go first.
    pub index_bytes_max: usize,
    /// How long another process may hold the file.
    pub busy_timeout: Duration,
}

impl SqliteOptions {
    /// The defaults for a file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            index_bytes_max: INDEX_BYTES_DEFAULT,
            busy_timeout: BUSY_TIMEOUT_DEFAULT,
        }
    }
}

/// A store in one SQLite file. Cheap to clone.
#[derive(Clone)]
pub struct SqliteMemoryStore {
    store: Store,
    indexes: Arc<Indexes>,
}

impl SqliteMemoryStore {
    /// Opens the file, or creates it.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, MemoryError> {
        Self::open_with(SqliteOptions::new(path))
    }

    /// Opens the file with these options, or creates it.
    pub fn open_with(options: SqliteOptions) -> Result<Self, MemoryError> {
        let SqliteOptions { path, index_bytes_max, busy_timeout } = options;
        let store = Store::open(StoreOptions {
            schema: Schema::Memory,
            busy_timeout,
            faults: Some(Faults::new(at_commit)),
            ..StoreOptions::new(path)
        })?;
        Ok(Self { store, indexes: Arc::new(Indexes::new(index_bytes_max)) })
    }

    /// Runs in a transaction that writes; an error undoes it.
    async fn write<T: Send + 'static>(
        &self,
        work: impl Fn(&mut Tx<'_>) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        self.store.write(work).await
    }

    /// Runs on one state of the file.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        self.store.read(work).await
    }
}

/// The places around a commit at which a test can end the process.
fn at_commit(point: FaultPoint) -> Option<StoreError> {
    match point {
        FaultPoint::Commit => failpoint!("memory.commit.before"),
        FaultPoint::Answer => failpoint!("memory.commit.after"),
        FaultPoint::Begin | FaultPoint::Read => {}
    }
    None
}

impl MemoryStore for SqliteMemoryStore {
    fn apply<'a>(&'a self, owner: &'a Owner, batch: Batch) -> MemoryFuture<'a, ()> {
        let owner = owner.clone();
        Box::pin(self.write(move |tx| write::apply(tx, &owner, &batch)))
    }

    fn search<'a>(&'a self, owner: &'a Owner, query: &'a Query) -> MemoryFuture<'a, Vec<Found>> {
        let (owner, query) = (owner.clone(), query.clone());
        let indexes = Arc::clone(&self.indexes);
        Box::pin(self.read(move |tx| search::search(tx, &indexes, &owner, &query)))
    }

    fn get<'a>(&'a self, owner: &'a Owner, id: MemoryId) -> MemoryFuture<'a, Option<Memory>> {
        let owner = owner.clone();
        Box::pin(self.read(move |tx| read::get(tx, &owner, id)))
    }

    fn list<'a>(&'a self, owner: &'a Owner, page: &'a Page) -> MemoryFuture<'a, Listing> {
        let (owner, page) = (owner.clone(), page.clone());
        Box::pin(self.read(move |tx| read::list(tx, &owner, &page)))
    }

    fn count<'a>(&'a self, owner: &'a Owner) -> MemoryFuture<'a, u64> {
        let owner = owner.clone();
        Box::pin(self.read(move |tx| read::count(tx, &owner)))
    }

    fn forget<'a>(&'a self, owner: &'a Owner, what: &'a Forget) -> MemoryFuture<'a, u64> {
        let (owner, what) = (owner.clone(), what.clone());
        Box::pin(self.write(move |tx| write::forget(tx, &owner, &what)))
    }

    fn enqueue<'a>(
        &'a self,
        owner: &'a Owner,
        conversation: Conversation,
        now: Timestamp,
    ) -> MemoryFuture<'a, Option<u64>> {
        let owner = owner.clone();
        Box::pin(self.write(move |tx| job::enqueue(tx, &owner, &conversation, now)))
    }

    fn claim(&self, now: Timestamp, lease: Duration) -> MemoryFuture<'_, Claim> {
        Box::pin(self.write(move |tx| job::claim(tx, now, lease)))
    }

    fn postpone(&self, key: JobKey, postponed: Postponed) -> MemoryFuture<'_, bool> {
        Box::pin(self.write(move |tx| job::postpone(tx, key, &postponed)))
    }

    fn hurry(&self, now: Timestamp) -> MemoryFuture<'_, ()> {
        Box::pin(self.write(move |tx| job::hurry(tx, now)))
    }

    fn jobs<'a>(&'a self, owner: &'a Owner) -> MemoryFuture<'a, Vec<JobInfo>> {
        let owner = owner.clone();
        Box::pin(self.read(move |tx| job::infos(tx, &owner)))
    }
}

impl std::fmt::Debug for SqliteMemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteMemoryStore")
            .field("path", &self.store.path())
            .finish_non_exhaustive()
    }
}

impl From<StoreError> for MemoryError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Busy { detail } => Self::Busy(detail),
            StoreError::Damaged { detail } => Self::File(detail),
            StoreError::NotADatabase { .. } | StoreError::NewerSchema { .. } => {
                Self::File(error.to_string())
            }
            StoreError::Full { .. }
            | StoreError::ReadOnly { .. }
            | StoreError::Io { .. }
            | StoreError::Closed => Self::Storage(error.to_string()),
            StoreError::TableTaken { .. }
            | StoreError::Locked { .. }
            | StoreError::Constraint { .. }
            | StoreError::Exists { .. }
            | StoreError::Bug { .. } => Self::Bug(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
