//! A session store in one SQLite file.
//!
//! A commit is one transaction and is on disk before the call returns. It names the revision that it builds on. If
//! two writers, in this process or in different ones, build on the same revision, the second commit fails with a
//! conflict.

mod error;
mod read;
mod state;
mod transaction_error;
mod write;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use provost_core::text::first_chars;
use provost_core::{Env, Timestamp};
use provost_store::table::session_file::SessionTables;
use provost_store::{Schema, Store, StoreError, StoreOptions, TablePrefix, Tx};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

pub use self::error::OpenError;
use self::transaction_error::{TransactionError, check_size, database_closed};
use self::write::EncodedChange;
use crate::store::check_id;
use crate::{SessionChange, SessionError, SessionFuture, SessionInfo, SessionStore, Transcript};

/// Maximum number of sessions in one page.
const PAGE_MAX: usize = 1000;
/// Maximum size of the metadata of a session as JSON, in bytes.
const METADATA_BYTES_MAX: usize = 64 * 1024;
/// Default time to wait for the write lock of another process.
const BUSY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// Options of a [`SqliteSessionStore`].
#[derive(Debug, Clone)]
pub struct SqliteSessionOptions {
    /// Prefix of the table names. Stores with different prefixes can use the same file and are independent.
    pub table_prefix: String,
    /// Time to wait for the write lock of another process before a call fails.
    pub busy_timeout: Duration,
    /// Source of the time of changes.
    pub env: Env,
}

impl Default for SqliteSessionOptions {
    fn default() -> Self {
        Self { table_prefix: String::new(), busy_timeout: BUSY_TIMEOUT_DEFAULT, env: Env::system() }
    }
}

/// Position in the list of sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCursor {
    /// Time of the last change of the previous session.
    pub updated_at: Timestamp,
    /// Id of the previous session.
    pub id: String,
}

/// A page of sessions, most recently changed first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPage {
    /// The sessions.
    pub sessions: Vec<SessionInfo>,
    /// Cursor of the next page; `None` on the last page.
    pub next: Option<SessionCursor>,
}

/// Session store in one SQLite file. Clones share it, and other processes on the same machine can use the same file.
#[derive(Clone)]
pub struct SqliteSessionStore {
    store: Store,
    tables: Arc<SessionTables>,
}

impl SqliteSessionStore {
    /// Opens a file. Creates a missing file and missing directories. On Unix, a new file has mode 0600 and new
    /// directories have mode 0700.
    pub fn open(path: impl AsRef<Path>, options: SqliteSessionOptions) -> Result<Self, OpenError> {
        let SqliteSessionOptions { table_prefix, busy_timeout, env } = options;
        let Some(prefix) = TablePrefix::new(&table_prefix) else {
            let prefix = first_chars(&table_prefix, 2 * TablePrefix::CHARS_MAX).to_owned();
            return Err(OpenError::InvalidPrefix { prefix, chars_max: TablePrefix::CHARS_MAX });
        };
        let path = path.as_ref();
        // An absolute path stays valid if the process changes its working directory.
        let path = std::path::absolute(path)
            .map_err(|source| OpenError::Storage { path: path.to_owned(), source })?;
        let tables = Arc::new(SessionTables::new(&prefix));
        let schema = Schema::Sessions(prefix);
        let options = StoreOptions { schema, env, busy_timeout, ..StoreOptions::new(&path) };
        let store = Store::open(options).map_err(|error| error::open_error(&path, error))?;
        Ok(Self { store, tables })
    }

    /// Returns the newest `limit` messages of a session, oldest first, without reading the others. `None` if the
    /// session does not exist.
    pub async fn load_last(
        &self,
        id: &str,
        limit: usize,
    ) -> Result<Option<Transcript>, SessionError> {
        check_id(id)?;
        let name = id.to_owned();
        self.read(id, move |tx, tables| read::load(tx, tables, &name, limit)).await
    }

    /// Returns a page of sessions after the cursor, or the first page if it is `None`. A page has at most 1000
    /// sessions.
    pub async fn page(
        &self,
        after: Option<&SessionCursor>,
        limit: usize,
    ) -> Result<SessionPage, SessionError> {
        let after = after.cloned();
        let limit = limit.clamp(1, PAGE_MAX);
        self.read(transaction_error::ALL_SESSIONS, move |tx, tables| {
            read::page(tx, tables, after.as_ref(), limit)
        })
        .await
    }

    /// Returns the metadata of a session; `None` if the session does not exist.
    pub async fn metadata(&self, id: &str) -> Result<Option<Map<String, Value>>, SessionError> {
        check_id(id)?;
        let name = id.to_owned();
        self.read(id, move |tx, tables| read::metadata(tx, tables, &name)).await
    }

    /// Replaces the metadata of a session. Returns false if the session does not exist. The revision and the time of
    /// the last change remain, so the call does not conflict with a run.
    pub async fn set_metadata(
        &self,
        id: &str,
        metadata: &Map<String, Value>,
    ) -> Result<bool, SessionError> {
        check_id(id)?;
        let text = serde_json::to_string(metadata).map_err(|error| SessionError::Storage {
            message: "the metadata cannot be written as JSON".to_owned(),
            source: error.into(),
        })?;
        check_size(id, "metadata", text.len(), METADATA_BYTES_MAX)?;
        let name = id.to_owned();
        self.write(id, move |tx, tables| Ok(tables.set_metadata(tx, &name, &text)?)).await
    }

    /// Copies the first `messages` messages of a session and its metadata to a new session; all messages if
    /// `messages` is `None`. Returns false if the session does not exist. Fails with [`SessionError::Conflict`] if
    /// the new id is in use.
    pub async fn fork(
        &self,
        from: &str,
        to: &str,
        messages: Option<usize>,
    ) -> Result<bool, SessionError> {
        check_id(from)?;
        check_id(to)?;
        let copy = write::SessionCopy {
            from: from.to_owned(),
            to: to.to_owned(),
            messages_max: messages.unwrap_or(usize::MAX),
        };
        self.write(to, move |tx, tables| write::fork(tx, tables, &copy)).await
    }

    /// Deletes the sessions that have not changed since a point in time, and returns their number.
    pub async fn delete_inactive_since(&self, since: Timestamp) -> Result<u64, SessionError> {
        let mut deleted = 0;
        loop {
            let delete = move |tx: &mut Tx<'_>, tables: &SessionTables| {
                write::delete_inactive(tx, tables, since)
            };
            match self.write(transaction_error::ALL_SESSIONS, delete).await? {
                0 => return Ok(deleted),
                count => deleted += count,
            }
        }
    }

    /// Runs a function on a consistent snapshot of the file.
    async fn read<T: Send + 'static>(
        &self,
        id: &str,
        work: impl FnOnce(&mut Tx<'_>, &SessionTables) -> Result<T, TransactionError> + Send + 'static,
    ) -> Result<T, SessionError> {
        let tables = Arc::clone(&self.tables);
        self.store.read(move |tx| work(tx, &tables)).await.map_err(|error| error.for_session(id))
    }

    /// Runs a function in a write transaction. If the caller drops the future before the transaction starts, the
    /// function does not run.
    async fn write<T: Send + 'static>(
        &self,
        id: &str,
        work: impl Fn(&mut Tx<'_>, &SessionTables) -> Result<T, TransactionError> + Send + 'static,
    ) -> Result<T, SessionError> {
        let tables = Arc::clone(&self.tables);
        let caller = Arc::new(());
        let is_awaited = Arc::downgrade(&caller);
        let written = self.store.write(move |tx| {
            if is_awaited.strong_count() == 0 {
                return Err(TransactionError::Store(StoreError::Closed));
            }
            work(tx, &tables)
        });
        let outcome = written.await;
        drop(caller);
        outcome.map_err(|error| error.for_session(id))
    }
}

impl SessionStore for SqliteSessionStore {
    fn load<'a>(&'a self, id: &'a str) -> SessionFuture<'a, Option<Transcript>> {
        Box::pin(self.load_last(id, usize::MAX))
    }

    fn commit<'a>(
        &'a self,
        id: &'a str,
        base: u64,
        change: SessionChange,
    ) -> SessionFuture<'a, u64> {
        Box::pin(async move {
            check_id(id)?;
            let name = id.to_owned();
            let encode = move || {
                EncodedChange::new(&name, base, change.pop, &change.add)
                    .map(|encoded| (encoded, name))
            };
            // Encoding large messages takes time and must not block the writer thread.
            let encoded = tokio::task::spawn_blocking(encode).await.map_err(database_closed)?;
            let (change, name) = encoded?;
            self.write(id, move |tx, tables| write::commit(tx, tables, &name, &change)).await
        })
    }

    fn delete<'a>(&'a self, id: &'a str) -> SessionFuture<'a, bool> {
        Box::pin(async move {
            check_id(id)?;
            let name = id.to_owned();
            self.write(id, move |tx, tables| write::delete(tx, tables, &name)).await
        })
    }

    fn list(&self) -> SessionFuture<'_, Vec<SessionInfo>> {
        Box::pin(async move {
            let all =
                |tx: &mut Tx<'_>, tables: &SessionTables| read::page(tx, tables, None, usize::MAX);
            Ok(self.read(transaction_error::ALL_SESSIONS, all).await?.sessions)
        })
    }
}

impl std::fmt::Debug for SqliteSessionStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteSessionStore")
            .field("path", &self.store.path())
            .finish_non_exhaustive()
    }
}
