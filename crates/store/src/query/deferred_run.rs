//! Runs that are held: children of one call that wait for another of them to end before they begin.

use provost_core::{RunId, Timestamp};

use crate::{StoreError, Tx, params};

/// A run that is held.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Held {
    /// The run.
    pub id: RunId,
    /// Its session.
    pub session: String,
    /// True if it can be claimed once it is let go, because no other run of its session waits or works.
    pub is_first: bool,
}

/// The first of the runs that one step of a run has started and that are held, which is what their time says.
pub fn next(
    tx: &mut Tx<'_>,
    parent: RunId,
    step: u64,
    held: Timestamp,
) -> Result<Option<Held>, StoreError> {
    let sql = "SELECT id, session_id, CASE WHEN EXISTS (
                  SELECT 1 FROM run w WHERE w.namespace = run.namespace AND w.session_id = run.session_id
                     AND w.phase = 'queued' AND w.id <> run.id) OR EXISTS (
                  SELECT 1 FROM run h WHERE h.namespace = run.namespace AND h.session_id = run.session_id
                     AND h.holds_session = 1) THEN 0 ELSE 1 END
           FROM run
          WHERE parent_run_id = ?1 AND parent_step = ?2 AND phase = 'queued' AND not_before = ?3
          ORDER BY rank, id LIMIT 1";
    let found = tx.optional::<(RunId, String, bool)>(sql, params![parent, step, held])?;
    Ok(found.map(|(id, session, is_first)| Held { id, session, is_first }))
}

/// Lets a run begin.
pub fn release(
    tx: &mut Tx<'_>,
    held: &Held,
    queue_deadline: Option<Timestamp>,
) -> Result<(), StoreError> {
    let sql = "UPDATE run SET not_before = ?2, queue_deadline = ?3, ready = ?4 WHERE id = ?1";
    tx.execute(sql, params![held.id, tx.now(), queue_deadline, held.is_first])?;
    Ok(())
}
