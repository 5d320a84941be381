//! Sessions: conversations, with at most one run that writes.

use provost_core::{RunId, Timestamp};

use crate::{StoreError, Tx, params};

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
    }
}

/// The session with the id.
pub fn get(tx: &mut Tx<'_>, namespace: &str, id: &str) -> Result<Option<SessionRow>, StoreError> {
    tx.optional(&SessionRow::select("WHERE namespace = ?1 AND id = ?2"), params![namespace, id])
}

/// The session with the name that a channel or caller gave it.
pub fn by_key(
    tx: &mut Tx<'_>,
    namespace: &str,
    key: &str,
) -> Result<Option<SessionRow>, StoreError> {
    tx.optional(&SessionRow::select("WHERE namespace = ?1 AND key = ?2"), params![namespace, key])
}

/// The session as it is stored; the given one if there was none.
pub fn ensure(tx: &mut Tx<'_>, session: &SessionRow) -> Result<SessionRow, StoreError> {
    if let Some(stored) = get(tx, &session.namespace, &session.id)? {
        return Ok(stored);
    }
    session.insert(tx)?;
    Ok(session.clone())
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

/// A session as one change left it.
#[derive(Debug, Clone, Copy)]
pub struct Moved {
    /// Its new revision.
    pub revision: u64,
    /// The number of the first of the new entries.
    pub first_entry: u64,
}

/// Moves a session on from the revision `base` and makes room for `entries` more; nothing if it is not at that revision.
pub fn advance(
    tx: &mut Tx<'_>,
    (namespace, id): (&str, &str),
    base: u64,
    entries: u64,
) -> Result<Option<Moved>, StoreError> {
    let sql = "UPDATE session SET revision = revision + 1, next_entry = next_entry + ?4, updated = ?5 \
               WHERE namespace = ?1 AND id = ?2 AND revision = ?3 RETURNING revision, next_entry - ?4";
    let moved = tx.optional(sql, params![namespace, id, base, entries, tx.now()])?;
    Ok(moved.map(|(revision, first_entry)| Moved { revision, first_entry }))
}
