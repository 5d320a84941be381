//! Sessions: conversations with at most one writing run.

use provost_core::{RunId, Timestamp};

use crate::transaction::filter::Filter;
use crate::{Locked, StoreError, Tx, params};

table! {
    /// A session.
    SessionRow in "session" {
        /// Namespace of the row.
        namespace: String,
        /// The id.
        id: String,
        /// Name that a channel or a caller assigned.
        key: Option<String>,
        /// The agent of the session.
        agent: Option<String>,
        /// Overrides of the queue settings, as JSON.
        queue: Option<String>,
        /// Revision; rises with each change of the messages.
        revision: u64,
        /// Position of the next message.
        next_entry: u64,
        /// Fencing token; rises with each run that acquires the session.
        fence: u64,
        /// The run that holds the session.
        holder_run_id: Option<RunId>,
        /// Time of creation.
        created: Timestamp,
        /// Time of the last change.
        updated: Timestamp,
        /// True if later calls of `spawn_task` may continue the session.
        continuable: bool,
    }
}

/// Identifies a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionRef<'a> {
    /// Namespace of the row.
    pub namespace: &'a str,
    /// The id.
    pub id: &'a str,
}

/// Criteria for listing sessions; `None` matches every value.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// The agent.
    pub agent: Option<String>,
    /// The assigned name.
    pub key: Option<String>,
    /// Sessions with a smaller id: the id of the last session of the previous page.
    pub before: Option<String>,
}

/// Returns the session with this id. `None` if it does not exist.
pub fn get(tx: &mut Tx<'_>, namespace: &str, id: &str) -> Result<Option<SessionRow>, StoreError> {
    tx.fetch_optional(
        &SessionRow::select("WHERE namespace = ?1 AND id = ?2"),
        params![namespace, id],
    )
}

/// Returns the session with this id, locked. `None` if it does not exist.
pub fn lock(
    tx: &mut Tx<'_>,
    namespace: &str,
    id: &str,
) -> Result<Option<Locked<SessionRow>>, StoreError> {
    tx.lock(&SessionRow::select("WHERE namespace = ?1 AND id = ?2"), params![namespace, id])
}

/// Locks a session without reading it.
pub fn lock_key(tx: &mut Tx<'_>, namespace: &str, id: &str) {
    tx.lock_key("session", params![namespace, id]);
}

/// Fails if transactions are checked and the session is not locked.
pub(crate) fn require_lock(
    tx: &Tx<'_>,
    namespace: &str,
    id: &str,
    change: &str,
) -> Result<(), StoreError> {
    tx.require_lock("session", params![namespace, id], change)
}

/// Returns the session with this assigned name. `None` if the namespace has none.
pub fn by_key(
    tx: &mut Tx<'_>,
    namespace: &str,
    key: &str,
) -> Result<Option<SessionRow>, StoreError> {
    tx.fetch_optional(
        &SessionRow::select("WHERE namespace = ?1 AND key = ?2"),
        params![namespace, key],
    )
}

/// Returns the sessions of a namespace, sorted by id, after the id `after`.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: &str,
    after: &str,
    limit: u64,
) -> Result<Vec<SessionRow>, StoreError> {
    let sql = SessionRow::select("WHERE namespace = ?1 AND id > ?2 ORDER BY id LIMIT ?3");
    tx.fetch_all(&sql, params![namespace, after, limit])
}

/// Returns sessions of a namespace by descending id. Generated ids rise with time.
pub fn find(
    tx: &mut Tx<'_>,
    namespace: &str,
    filter: &SessionFilter,
    limit: u64,
) -> Result<Vec<SessionRow>, StoreError> {
    let SessionFilter { agent, key, before } = filter;
    Filter::of(namespace)
        .maybe("agent = {}", agent)
        .maybe("key = {}", key)
        .maybe("id < {}", before)
        .rows(tx, SessionRow::select, "id DESC", limit)
}

/// Acquires a session for a run, raises its fence and returns its revision. Returns `None` if the session does not
/// exist or another run holds it.
pub fn acquire(
    tx: &mut Tx<'_>,
    namespace: &str,
    id: &str,
    run_id: RunId,
) -> Result<Option<u64>, StoreError> {
    let sql = "UPDATE session SET fence = fence + 1, holder_run_id = ?3
                WHERE namespace = ?1 AND id = ?2 AND (holder_run_id IS NULL OR holder_run_id = ?3) RETURNING revision";
    tx.fetch_optional_fenced(sql, params![namespace, id, run_id])
}

/// Allows later calls of `spawn_task` to continue a session.
pub fn set_continuable(tx: &mut Tx<'_>, session: SessionRef<'_>) -> Result<(), StoreError> {
    let sql = "UPDATE session SET continuable = 1 WHERE namespace = ?1 AND id = ?2";
    tx.execute(sql, params![session.namespace, session.id]).map(drop)
}

/// Releases a session if this run holds it.
pub fn release(
    tx: &mut Tx<'_>,
    namespace: &str,
    id: &str,
    run_id: RunId,
) -> Result<(), StoreError> {
    let sql = "UPDATE session SET holder_run_id = NULL \
               WHERE namespace = ?1 AND id = ?2 AND holder_run_id = ?3";
    tx.execute_fenced(sql, params![namespace, id, run_id]).map(drop)
}

/// Starts a new revision after the revision `base` and reserves `entries` positions. Returns the first position;
/// `None` if the session is not at revision `base`.
pub fn advance(
    tx: &mut Tx<'_>,
    session: SessionRef<'_>,
    base: u64,
    entries: u64,
) -> Result<Option<u64>, StoreError> {
    let sql = "UPDATE session SET revision = revision + 1, next_entry = next_entry + ?4, updated = ?5 \
               WHERE namespace = ?1 AND id = ?2 AND revision = ?3 RETURNING next_entry - ?4";
    tx.fetch_optional_fenced(sql, params![session.namespace, session.id, base, entries, tx.now()])
}
