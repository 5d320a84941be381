//! Sessions: conversations, with at most one run that writes.

use provost_core::{RunId, Timestamp};

use crate::transaction::filter::Filter;
use crate::{Locked, StoreError, Tx, params};

table! {
    /// One session.
    SessionRow in "session" {
        /// The tenancy boundary.
        namespace: String,
        /// The id.
        id: String,
        /// The name that a channel or caller gave it.
        key: Option<String>,
        /// The agent it is with.
        agent: Option<String>,
        /// How its waiting messages are treated, as far as it differs, as JSON.
        queue: Option<String>,
        /// Rises with each change of what it consists of.
        revision: u64,
        /// The number of the next entry.
        next_entry: u64,
        /// Rises with each run that takes it.
        fence: u64,
        /// The run that holds it.
        holder_run_id: Option<RunId>,
        /// When it was made.
        created: Timestamp,
        /// When it last changed.
        updated: Timestamp,
        /// True if a later call of `spawn_task` may continue it.
        continuable: bool,
    }
}

/// Names a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionRef<'a> {
    /// The tenancy boundary.
    pub namespace: &'a str,
    /// The id.
    pub id: &'a str,
}

/// Which sessions to list.
#[derive(Debug, Clone, Default)]
pub struct SessionFilter {
    /// With this agent only.
    pub agent: Option<String>,
    /// The one with this name only.
    pub key: Option<String>,
    /// Before this id: the last of the page before.
    pub before: Option<String>,
}

/// The session with the id.
pub fn get(tx: &mut Tx<'_>, namespace: &str, id: &str) -> Result<Option<SessionRow>, StoreError> {
    tx.optional(&SessionRow::select("WHERE namespace = ?1 AND id = ?2"), params![namespace, id])
}

/// The session with the id, locked.
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

/// Fails if a session is not locked and transactions are checked.
pub(crate) fn require_lock(
    tx: &Tx<'_>,
    namespace: &str,
    id: &str,
    change: &str,
) -> Result<(), StoreError> {
    tx.require_lock("session", params![namespace, id], change)
}

/// The session with the name that a channel or caller gave it.
pub fn by_key(
    tx: &mut Tx<'_>,
    namespace: &str,
    key: &str,
) -> Result<Option<SessionRow>, StoreError> {
    tx.optional(&SessionRow::select("WHERE namespace = ?1 AND key = ?2"), params![namespace, key])
}

/// The sessions of a namespace, by id, after the id `after`.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: &str,
    after: &str,
    limit: u64,
) -> Result<Vec<SessionRow>, StoreError> {
    let sql = SessionRow::select("WHERE namespace = ?1 AND id > ?2 ORDER BY id LIMIT ?3");
    tx.all(&sql, params![namespace, after, limit])
}

/// Sessions of a namespace by id, the last first: ids that nobody chose are in the order of time.
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

/// Gives a session to a run under a new fence, and returns the revision of the session; nothing if there is no such session, or
/// if another run holds it.
pub fn hold(
    tx: &mut Tx<'_>,
    namespace: &str,
    id: &str,
    run_id: RunId,
) -> Result<Option<u64>, StoreError> {
    let sql = "UPDATE session SET fence = fence + 1, holder_run_id = ?3
                WHERE namespace = ?1 AND id = ?2 AND (holder_run_id IS NULL OR holder_run_id = ?3) RETURNING revision";
    tx.optional_fenced(sql, params![namespace, id, run_id])
}

/// Permits later calls of `spawn_task` to continue a session.
pub fn set_continuable(tx: &mut Tx<'_>, session: SessionRef<'_>) -> Result<(), StoreError> {
    let sql = "UPDATE session SET continuable = 1 WHERE namespace = ?1 AND id = ?2";
    tx.execute(sql, params![session.namespace, session.id]).map(drop)
}

/// Takes a session from a run, if that run has it.
pub fn free(tx: &mut Tx<'_>, namespace: &str, id: &str, run_id: RunId) -> Result<(), StoreError> {
    let sql = "UPDATE session SET holder_run_id = NULL \
               WHERE namespace = ?1 AND id = ?2 AND holder_run_id = ?3";
    tx.execute_fenced(sql, params![namespace, id, run_id]).map(drop)
}

/// Moves a session on from the revision `base` and makes room for `entries` more. Returns the number of the first of them;
/// nothing if the session is not at that revision.
pub fn advance(
    tx: &mut Tx<'_>,
    session: SessionRef<'_>,
    base: u64,
    entries: u64,
) -> Result<Option<u64>, StoreError> {
    let sql = "UPDATE session SET revision = revision + 1, next_entry = next_entry + ?4, updated = ?5 \
               WHERE namespace = ?1 AND id = ?2 AND revision = ?3 RETURNING next_entry - ?4";
    tx.optional_fenced(sql, params![session.namespace, session.id, base, entries, tx.now()])
}
