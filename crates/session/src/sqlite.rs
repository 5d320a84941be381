//! Sessions in one SQLite file.
//!
//! A commit is one transaction and on the disk before it returns. It names the revision it builds on, so of two writers, in
//! this process or another, the second is refused and nothing is mixed.

mod error;
mod fault;
mod read;
mod state;
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
use self::fault::{Fault, check_size, stopped};
use self::write::Encoded;
use crate::{
    SESSION_ID_BYTES_MAX, SessionChange, SessionError, SessionFuture, SessionInfo, SessionStore,
    Transcript,
};

/// Sessions in one page of a listing.
const PAGE_MAX: usize = 1000;
/// Bytes of the metadata of one session as JSON.
const METADATA_BYTES_MAX: usize = 64 * 1024;
/// How long another process may hold the file unless the options say otherwise.
const BUSY_TIMEOUT_DEFAULT: Duration = Duration::from_secs(10);

/// How sessions are kept.
#[derive(Debug, Clone)]
pub struct SqliteSessionsOptions {
    /// What the names of the tables begin with; stores with different prefixes share a file and nothing else.
    pub table_prefix: String,
    /// How long another process may hold the file.
    pub busy_timeout: Duration,
    /// Where the time of changes comes from.
    pub env: Env,
}

impl Default for SqliteSessionsOptions {
    fn default() -> Self {
        Self { table_prefix: String::new(), busy_timeout: BUSY_TIMEOUT_DEFAULT, env: Env::system() }
    }
}

/// A place in the listing of sessions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionCursor {
    /// When the session before it last changed.
    pub updated_at: Timestamp,
    /// Its id.
    pub id: String,
}

/// Some sessions, the most recently changed first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPage {
    /// The sessions.
    pub sessions: Vec<SessionInfo>,
    /// Where the next page starts; `None` if this is the last one.
    pub next: Option<SessionCursor>,
}

/// Keeps sessions in one SQLite file. Clones share it, and so can other processes on the same machine.
#[derive(Clone)]
pub struct SqliteSessions {
    store: Store,
    tables: Arc<SessionTables>,
}

impl SqliteSessions {
    /// Opens a file, made if it does not exist. On Unix a new one has mode 0600, and directories made for it have 0700.
    pub fn open(path: impl AsRef<Path>, options: SqliteSessionsOptions) -> Result<Self, OpenError> {
        let SqliteSessionsOptions { table_prefix, busy_timeout, env } = options;
        let Some(prefix) = TablePrefix::new(&table_prefix) else {
            let prefix = first_chars(&table_prefix, 2 * TablePrefix::CHARS_MAX).to_owned();
            return Err(OpenError::Prefix { prefix, chars_max: TablePrefix::CHARS_MAX });
        };
        let path = path.as_ref();
        // The whole path, so that it stays the same file wherever the process goes.
        let path = std::path::absolute(path)
            .map_err(|source| OpenError::Storage { path: path.to_owned(), source })?;
        let tables = Arc::new(SessionTables::new(&prefix));
        let schema = Schema::Sessions(prefix);
        let options = StoreOptions { schema, env, busy_timeout, ..StoreOptions::new(&path) };
        let store = Store::open(options).map_err(|error| error::refusal(&path, error))?;
        Ok(Self { store, tables })
    }

    /// The newest messages of a session, at most `limit` of them, oldest first, without reading the others. `None` if there
    /// is no such session.
    pub async fn newest(&self, id: &str, limit: usize) -> Result<Option<Transcript>, SessionError> {
        check_id(id)?;
        let name = id.to_owned();
        self.read(id, move |tx, tables| read::load(tx, tables, &name, limit)).await
    }

    /// A page of the listing, from the beginning or after a cursor. At most 1000 sessions, whatever the limit is.
    pub async fn page(
        &self,
        after: Option<&SessionCursor>,
        limit: usize,
    ) -> Result<SessionPage, SessionError> {
        let after = after.cloned();
        let limit = limit.clamp(1, PAGE_MAX);
        self.read(fault::ALL, move |tx, tables| read::page(tx, tables, after.as_ref(), limit)).await
    }

    /// What the program has noted about a session; `None` if there is no such session.
    pub async fn metadata(&self, id: &str) -> Result<Option<Map<String, Value>>, SessionError> {
        check_id(id)?;
        let name = id.to_owned();
        self.read(id, move |tx, tables| read::metadata(tx, tables, &name)).await
    }

    /// Replaces what is noted about a session; false if there is no such session. The session's revision and the time of its
    /// last change stay, so it disturbs no run.
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

    /// Copies a session with its metadata to a new one: its first `messages` messages, or all. False if there is no such
    /// session; one that is there under the new id is a [`SessionError::Conflict`].
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

    /// Deletes the sessions that have not changed since a moment and says how many those were.
    pub async fn forget_unused_since(&self, moment: Timestamp) -> Result<u64, SessionError> {
        let mut forgotten = 0;
        loop {
            let forget =
                move |tx: &mut Tx<'_>, tables: &SessionTables| write::forget(tx, tables, moment);
            match self.write(fault::ALL, forget).await? {
                0 => return Ok(forgotten),
                some => forgotten += some,
            }
        }
    }

    /// Reads one state of the file.
    async fn read<T: Send + 'static>(
        &self,
        id: &str,
        work: impl FnOnce(&mut Tx<'_>, &SessionTables) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, SessionError> {
        let tables = Arc::clone(&self.tables);
        self.store.read(move |tx| work(tx, &tables)).await.map_err(|fault| fault.of(id))
    }

    /// Makes a change, all of it or nothing. A change whose caller is gone when its turn comes is not made.
    async fn write<T: Send + 'static>(
        &self,
        id: &str,
        work: impl Fn(&mut Tx<'_>, &SessionTables) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, SessionError> {
        let tables = Arc::clone(&self.tables);
        let caller = Arc::new(());
        let is_awaited = Arc::downgrade(&caller);
        let written = self.store.write(move |tx| {
            if is_awaited.strong_count() == 0 {
                return Err(Fault::Store(StoreError::Closed));
            }
            work(tx, &tables)
        });
        let outcome = written.await;
        drop(caller);
        outcome.map_err(|fault| fault.of(id))
    }
}

impl SessionStore for SqliteSessions {
    fn load<'a>(&'a self, id: &'a str) -> SessionFuture<'a, Option<Transcript>> {
        Box::pin(self.newest(id, usize::MAX))
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
            let encode =
                move || Encoded::new(&name, base, change.pop, &change.add).map(|made| (made, name));
            // Large messages take their time, and that is not the writer's.
            let encoded = tokio::task::spawn_blocking(encode).await.map_err(stopped)?;
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
            Ok(self.read(fault::ALL, all).await?.sessions)
        })
    }
}

impl std::fmt::Debug for SqliteSessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteSessions").field("path", &self.store.path()).finish_non_exhaustive()
    }
}

/// Refuses an id that no store takes.
fn check_id(id: &str) -> Result<(), SessionError> {
    if id.len() <= SESSION_ID_BYTES_MAX {
        return Ok(());
    }
    let shown = first_chars(id, 32);
    Err(SessionError::Id {
        id: format!("{shown}…"),
        problem: format!("it has {} bytes, use at most {SESSION_ID_BYTES_MAX}", id.len()),
    })
}
