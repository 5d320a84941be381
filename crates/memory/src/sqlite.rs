//! A store in one SQLite file: FTS5 indexes the words, and a vector index in memory indexes the embeddings.
//!
//! The file contains all data. The vector index is built from the file and follows its changes, including those of
//! other processes.

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
use provost_store::{FaultInjector, FaultPoint, Schema, Store, StoreError, StoreOptions, Tx};

use self::index::VectorIndexCache;
use crate::MemoryError;
use crate::job::{ClaimResult, Conversation, JobClaim, JobRetry, JobStatus};
use crate::memory::{Memory, Owner};
use crate::store::{
    ChangeSet, DeleteScope, ListRequest, MemoryFuture, MemoryPage, MemoryStore, SearchHit,
    SearchQuery,
};

/// Default size of the vector index in memory, in bytes.
const INDEX_BYTES_DEFAULT: usize = 512 << 20;
/// Default time to wait for the write lock of another process.
const BUSY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// Options of a [`SqliteMemoryStore`].
#[derive(Debug, Clone)]
pub struct SqliteOptions {
    /// The database file. A missing file and its directory are created, readable by their owner only.
    pub path: PathBuf,
    /// Maximum size of the vector index in memory for all owners together, in bytes. The indexes of the least
    /// recently used owners are dropped first.
    pub index_bytes_max: usize,
    /// Time to wait for the write lock of another process before [`MemoryError::Busy`].
    pub busy_timeout: Duration,
}

impl SqliteOptions {
    /// Returns the default options for a file.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self {
            path: path.into(),
            index_bytes_max: INDEX_BYTES_DEFAULT,
            busy_timeout: BUSY_TIMEOUT_DEFAULT,
        }
    }
}

/// A store in one SQLite file. Clones share it.
#[derive(Clone)]
pub struct SqliteMemoryStore {
    store: Store,
    index_cache: Arc<VectorIndexCache>,
}

impl SqliteMemoryStore {
    /// Opens a file with the default options. Creates a missing file.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, MemoryError> {
        Self::open_with(SqliteOptions::new(path))
    }

    /// Opens a file. Creates a missing file.
    pub fn open_with(options: SqliteOptions) -> Result<Self, MemoryError> {
        let SqliteOptions { path, index_bytes_max, busy_timeout } = options;
        let store = Store::open(StoreOptions {
            schema: Schema::Memory,
            busy_timeout,
            faults: Some(FaultInjector::new(at_commit)),
            ..StoreOptions::new(path)
        })?;
        Ok(Self { store, index_cache: Arc::new(VectorIndexCache::new(index_bytes_max)) })
    }

    /// Runs a function in a write transaction. An error rolls the transaction back.
    async fn write<T: Send + 'static>(
        &self,
        work: impl Fn(&mut Tx<'_>) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        self.store.write(work).await
    }

    /// Runs a function on a consistent snapshot of the file.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Tx<'_>) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        self.store.read(work).await
    }
}

/// Failpoints around a commit, at which tests kill the process.
fn at_commit(point: FaultPoint) -> Option<StoreError> {
    match point {
        FaultPoint::Commit => failpoint!("memory.commit.before"),
        FaultPoint::AfterCommit => failpoint!("memory.commit.after"),
        FaultPoint::Begin | FaultPoint::Read => {}
    }
    None
}

impl MemoryStore for SqliteMemoryStore {
    fn apply<'a>(&'a self, owner: &'a Owner, changes: ChangeSet) -> MemoryFuture<'a, ()> {
        let owner = owner.clone();
        Box::pin(self.write(move |tx| write::apply_changes(tx, &owner, &changes)))
    }

    fn search<'a>(
        &'a self,
        owner: &'a Owner,
        query: &'a SearchQuery,
    ) -> MemoryFuture<'a, Vec<SearchHit>> {
        let (owner, query) = (owner.clone(), query.clone());
        let index_cache = Arc::clone(&self.index_cache);
        Box::pin(self.read(move |tx| search::search(tx, &index_cache, &owner, &query)))
    }

    fn get<'a>(&'a self, owner: &'a Owner, id: MemoryId) -> MemoryFuture<'a, Option<Memory>> {
        let owner = owner.clone();
        Box::pin(self.read(move |tx| read::get(tx, &owner, id)))
    }

    fn list<'a>(
        &'a self,
        owner: &'a Owner,
        request: &'a ListRequest,
    ) -> MemoryFuture<'a, MemoryPage> {
        let (owner, request) = (owner.clone(), request.clone());
        Box::pin(self.read(move |tx| read::list(tx, &owner, &request)))
    }

    fn count<'a>(&'a self, owner: &'a Owner) -> MemoryFuture<'a, u64> {
        let owner = owner.clone();
        Box::pin(self.read(move |tx| read::count(tx, &owner)))
    }

    fn delete<'a>(&'a self, owner: &'a Owner, scope: &'a DeleteScope) -> MemoryFuture<'a, u64> {
        let (owner, scope) = (owner.clone(), scope.clone());
        Box::pin(self.write(move |tx| write::delete(tx, &owner, &scope)))
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

    fn claim(&self, now: Timestamp, lease: Duration) -> MemoryFuture<'_, ClaimResult> {
        Box::pin(self.write(move |tx| job::claim(tx, now, lease)))
    }

    fn schedule_retry(&self, claim: JobClaim, retry: JobRetry) -> MemoryFuture<'_, bool> {
        Box::pin(self.write(move |tx| job::schedule_retry(tx, claim, &retry)))
    }

    fn make_due(&self, now: Timestamp) -> MemoryFuture<'_, ()> {
        Box::pin(self.write(move |tx| job::make_due(tx, now)))
    }

    fn jobs<'a>(&'a self, owner: &'a Owner) -> MemoryFuture<'a, Vec<JobStatus>> {
        let owner = owner.clone();
        Box::pin(self.read(move |tx| job::statuses(tx, &owner)))
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
            StoreError::Corrupt { detail } => Self::CorruptFile(detail),
            StoreError::NotADatabase { .. }
            | StoreError::SchemaTooNew { .. }
            | StoreError::Unreadable { .. } => Self::CorruptFile(error.to_string()),
            StoreError::DiskFull { .. }
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
