//! A store in one SQLite file: words in FTS5, vectors as bytes, and an index of the vectors in this process's memory.
//!
//! All that matters is in the file; the index is rebuilt from it and follows it, also where other processes write.

mod index;
mod job;
mod open;
mod read;
mod search;
mod write;

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_core::{MemoryId, Timestamp};
use provost_failpoint::failpoint;
use rusqlite::{Connection, TransactionBehavior};

use self::index::Indexes;
use crate::MemoryError;
use crate::job::{Claim, Conversation, JobInfo, JobKey, Postponed};
use crate::memory::{Memory, Owner};
use crate::store::{Batch, Forget, Found, Listing, MemoryFuture, MemoryStore, Page, Query};

/// Connections for reading that are kept open.
const READERS_MAX: usize = 4;
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
    inner: Arc<Inner>,
}

struct Inner {
    options: SqliteOptions,
    writer: Mutex<Connection>,
    readers: Mutex<Vec<Connection>>,
    indexes: Indexes,
}

impl SqliteMemoryStore {
    /// Opens the file, or creates it.
    pub fn open(path: impl Into<PathBuf>) -> Result<Self, MemoryError> {
        Self::open_with(SqliteOptions::new(path))
    }

    /// Opens the file with these options, or creates it.
    pub fn open_with(options: SqliteOptions) -> Result<Self, MemoryError> {
        let writer = open::prepare(&options)?;
        let inner = Inner {
            indexes: Indexes::new(options.index_bytes_max),
            options,
            writer: Mutex::new(writer),
            readers: Mutex::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Runs on a thread that may block.
    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let inner = Arc::clone(&self.inner);
        let scenario = provost_failpoint::current();
        let done = tokio::task::spawn_blocking(move || {
            let _entered = scenario.enter();
            work(&inner)
        });
        done.await.map_err(|error| MemoryError::Bug(error.to_string()))?
    }

    /// Runs in a transaction that writes; an error undoes it.
    async fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        self.blocking(move |inner| inner.write(work)).await
    }

    /// Runs on one state of the file.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Inner) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        self.blocking(move |inner| inner.read(|connection| work(connection, inner))).await
    }
}

impl Inner {
    fn write<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, MemoryError>,
    ) -> Result<T, MemoryError> {
        let mut connection = lock(&self.writer);
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let made = work(&transaction)?;
        failpoint!("memory.commit.before");
        transaction.commit()?;
        failpoint!("memory.commit.after");
        Ok(made)
    }

    fn read<T>(
        &self,
        work: impl FnOnce(&Connection) -> Result<T, MemoryError>,
    ) -> Result<T, MemoryError> {
        let idle = lock(&self.readers).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => open::connect(&self.options, open::Role::Reader)?,
        };
        let transaction = connection.transaction()?;
        let made = work(&transaction)?;
        transaction.finish()?;
        let mut readers = lock(&self.readers);
        if readers.len() < READERS_MAX {
            readers.push(connection);
        }
        Ok(made)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryStore for SqliteMemoryStore {
    fn apply<'a>(&'a self, owner: &'a Owner, batch: Batch) -> MemoryFuture<'a, ()> {
        let owner = owner.clone();
        Box::pin(self.write(move |db| write::apply(db, &owner, batch)))
    }

    fn search<'a>(&'a self, owner: &'a Owner, query: &'a Query) -> MemoryFuture<'a, Vec<Found>> {
        let (owner, query) = (owner.clone(), query.clone());
        Box::pin(self.read(move |db, inner| search::search(db, &inner.indexes, &owner, &query)))
    }

    fn get<'a>(&'a self, owner: &'a Owner, id: MemoryId) -> MemoryFuture<'a, Option<Memory>> {
        let owner = owner.clone();
        Box::pin(self.read(move |db, _| read::get(db, &owner, id)))
    }

    fn list<'a>(&'a self, owner: &'a Owner, page: &'a Page) -> MemoryFuture<'a, Listing> {
        let (owner, page) = (owner.clone(), page.clone());
        Box::pin(self.read(move |db, _| read::list(db, &owner, &page)))
    }

    fn count<'a>(&'a self, owner: &'a Owner) -> MemoryFuture<'a, u64> {
        let owner = owner.clone();
        Box::pin(self.read(move |db, _| read::count(db, &owner)))
    }

    fn forget<'a>(&'a self, owner: &'a Owner, what: &'a Forget) -> MemoryFuture<'a, u64> {
        let (owner, what) = (owner.clone(), what.clone());
        Box::pin(self.write(move |db| write::forget(db, &owner, &what)))
    }

    fn enqueue<'a>(
        &'a self,
        owner: &'a Owner,
        conversation: Conversation,
        now: Timestamp,
    ) -> MemoryFuture<'a, Option<u64>> {
        let owner = owner.clone();
        Box::pin(self.write(move |db| job::enqueue(db, &owner, &conversation, now)))
    }

    fn claim(&self, now: Timestamp, lease: Duration) -> MemoryFuture<'_, Claim> {
        Box::pin(self.write(move |db| job::claim(db, now, lease)))
    }

    fn postpone(&self, key: JobKey, postponed: Postponed) -> MemoryFuture<'_, bool> {
        Box::pin(self.write(move |db| job::postpone(db, key, &postponed)))
    }

    fn hurry(&self, now: Timestamp) -> MemoryFuture<'_, ()> {
        Box::pin(self.write(move |db| job::hurry(db, now)))
    }

    fn jobs<'a>(&'a self, owner: &'a Owner) -> MemoryFuture<'a, Vec<JobInfo>> {
        let owner = owner.clone();
        Box::pin(self.read(move |db, _| job::infos(db, &owner)))
    }
}

impl std::fmt::Debug for SqliteMemoryStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = &self.inner.options.path;
        f.debug_struct("SqliteMemoryStore").field("path", path).finish_non_exhaustive()
    }
}

impl From<rusqlite::Error> for MemoryError {
    fn from(error: rusqlite::Error) -> Self {
        use rusqlite::ErrorCode as Code;
        let detail = error.to_string();
        match error.sqlite_error_code() {
            Some(Code::DatabaseBusy | Code::DatabaseLocked) => Self::Busy(detail),
            Some(Code::DatabaseCorrupt | Code::NotADatabase) => Self::File(detail),
            Some(
                Code::DiskFull
                | Code::ReadOnly
                | Code::PermissionDenied
                | Code::SystemIoFailure
                | Code::CannotOpen
                | Code::OutOfMemory
                | Code::FileLockingProtocolFailed
                | Code::NoLargeFileSupport,
            ) => Self::Storage(detail),
            _ => Self::Bug(detail),
        }
    }
}

#[cfg(test)]
mod tests;
