//! Sessions in one SQLite file: one thread writes, others read.
//!
//! A commit is one transaction and on the disk before it returns. It names the revision it builds on, so of two writers, in
//! this process or another, the second is refused and nothing is mixed.

mod error;
mod fault;
mod open;
mod read;
mod sql;
mod state;
mod write;

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use provost_core::text::first_chars;
use provost_core::{Env, Timestamp};
use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::Semaphore;

pub use self::error::OpenError;
use self::fault::{check_size, fault, stopped};
use self::open::Place;
use self::sql::Sql;
use self::write::{Encoded, Writer};
use crate::{
    SESSION_ID_BYTES_MAX, SessionChange, SessionError, SessionFuture, SessionInfo, SessionStore,
    Transcript,
};

/// Connections that read at the same time.
const READERS_MAX: usize = 4;
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
    shared: Arc<Shared>,
    writer: Writer,
}

struct Shared {
    place: Place,
    sql: Arc<Sql>,
    env: Env,
    idle: Mutex<Vec<Connection>>,
    seats: Arc<Semaphore>,
}

impl SqliteSessions {
    /// Opens a file, made if it does not exist. On Unix a new one has mode 0600, and directories made for it have 0700.
    pub fn open(path: impl AsRef<Path>, options: SqliteSessionsOptions) -> Result<Self, OpenError> {
        let SqliteSessionsOptions { table_prefix, busy_timeout, env } = options;
        open::check_prefix(&table_prefix)?;
        let sql = Arc::new(Sql::new(&table_prefix));
        let (place, connection) = open::prepare(path.as_ref(), busy_timeout, &sql)?;
        let writer = Writer::start(connection, Arc::clone(&sql))
            .map_err(|source| OpenError::Storage { path: place.path().to_owned(), source })?;
        let seats = Arc::new(Semaphore::new(READERS_MAX));
        let shared = Arc::new(Shared { place, sql, env, idle: Mutex::default(), seats });
        Ok(Self { shared, writer })
    }

    /// The newest messages of a session, at most `limit` of them, oldest first, without reading the others. `None` if there
    /// is no such session.
    pub async fn newest(&self, id: &str, limit: usize) -> Result<Option<Transcript>, SessionError> {
        check_id(id)?;
        let id = id.to_owned();
        self.read(move |db, sql| read::load(db, sql, &id, limit)).await
    }

    /// A page of the listing, from the beginning or after a cursor. At most 1000 sessions, whatever the limit is.
    pub async fn page(
        &self,
        after: Option<&SessionCursor>,
        limit: usize,
    ) -> Result<SessionPage, SessionError> {
        let after = after.cloned();
        let limit = limit.clamp(1, PAGE_MAX);
        self.read(move |db, sql| read::page(db, sql, after.as_ref(), limit)).await
    }

    /// What the program has noted about a session; `None` if there is no such session.
    pub async fn metadata(&self, id: &str) -> Result<Option<Map<String, Value>>, SessionError> {
        check_id(id)?;
        let id = id.to_owned();
        self.read(move |db, sql| read::metadata(db, sql, &id)).await
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
        self.writer.write(id, move |tx, sql| write::set_metadata(tx, sql, &name, &text)).await
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
        let env = self.shared.env.clone();
        self.writer.write(to, move |tx, sql| write::fork(tx, sql, &copy, env.now())).await
    }

    /// Deletes the sessions that have not changed since a moment and says how many those were.
    pub async fn forget_unused_since(&self, moment: Timestamp) -> Result<u64, SessionError> {
        let mut forgotten = 0;
        loop {
            let work =
                move |tx: &rusqlite::Transaction<'_>, sql: &Sql| write::forget(tx, sql, moment);
            match self.writer.write(fault::ALL, work).await? {
                0 => return Ok(forgotten),
                some => forgotten += some,
            }
        }
    }

    /// Runs on one state of the file, on a thread that may block.
    async fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, &Sql) -> Result<T, SessionError> + Send + 'static,
    ) -> Result<T, SessionError> {
        let seat = Arc::clone(&self.shared.seats).acquire_owned().await.map_err(stopped)?;
        let shared = Arc::clone(&self.shared);
        let read = tokio::task::spawn_blocking(move || {
            let _seat = seat;
            shared.read(work)
        });
        read.await.map_err(stopped)?
    }
}

impl Shared {
    fn read<T>(
        &self,
        work: impl FnOnce(&Connection, &Sql) -> Result<T, SessionError>,
    ) -> Result<T, SessionError> {
        let failed = |error| fault(fault::ALL, error);
        let idle = self.idle().pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.place.reader().map_err(failed)?,
        };
        let tx = connection.transaction().map_err(failed)?;
        let made = work(&tx, &self.sql)?;
        tx.finish().map_err(failed)?;
        self.idle().push(connection);
        Ok(made)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock()
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
            let ((change, name), env) = (encoded?, self.shared.env.clone());
            let work = move |tx: &rusqlite::Transaction<'_>, sql: &Sql| {
                write::commit(tx, sql, &name, &change, env.now())
            };
            self.writer.write(id, work).await
        })
    }

    fn delete<'a>(&'a self, id: &'a str) -> SessionFuture<'a, bool> {
        Box::pin(async move {
            check_id(id)?;
            let name = id.to_owned();
            self.writer.write(id, move |tx, sql| write::delete(tx, sql, &name)).await
        })
    }

    fn list(&self) -> SessionFuture<'_, Vec<SessionInfo>> {
        let all = move |db: &Connection, sql: &Sql| read::page(db, sql, None, usize::MAX);
        Box::pin(async move { Ok(self.read(all).await?.sessions) })
    }
}

impl std::fmt::Debug for SqliteSessions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.shared.place.path();
        f.debug_struct("SqliteSessions").field("path", &path).finish_non_exhaustive()
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
