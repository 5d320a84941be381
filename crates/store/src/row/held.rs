//! Runs that are held: children of one call that wait for another of them to end before they begin.

use provost_core::{RunId, Timestamp};

use crate::{StoreError, Tx, params};

/// The first of the runs that one step of a run has started and that are held, which is what their time says, and its session.
pub fn next(
    tx: &mut Tx<'_>,
    parent: RunId,
    step: u64,
    held: Timestamp,
) -> Result<Option<(RunId, String)>, StoreError> {
    // The moment is written out, because only so the index `run_held` is used.
    let sql = format!(
        "SELECT id, session_id FROM run
          WHERE parent_run_id = ?1 AND parent_step = ?2 AND phase = 'queued' AND not_before = {}
          ORDER BY rank, id LIMIT 1",
        held.as_millis()
    );
    tx.optional(&sql, params![parent, step])
}

/// Lets a run begin. True if it can be claimed at once, because no other run of its session waits or works.
pub fn release(
    tx: &mut Tx<'_>,
    id: RunId,
    queue_deadline: Option<Timestamp>,
) -> Result<bool, StoreError> {
    // Looked up apart: for a statement that changes a row and gives it back, SQLite keeps a copy of each page that it changes.
    let look = "SELECT CASE WHEN EXISTS (
                  SELECT 1 FROM run o WHERE o.namespace = run.namespace AND o.session_id = run.session_id
                     AND o.phase = 'queued' AND o.id <> run.id) OR EXISTS (
                  SELECT 1 FROM run h WHERE h.namespace = run.namespace AND h.session_id = run.session_id
                     AND h.holds_session = 1) THEN 0 ELSE 1 END
                 FROM run WHERE id = ?1 AND phase = 'queued'";
    let Some(ready) = tx.optional::<bool>(look, params![id])? else { return Ok(false) };
    let sql = "UPDATE run SET not_before = ?2, queue_deadline = ?3, ready = ?4 WHERE id = ?1";
    tx.execute(sql, params![id, tx.now(), queue_deadline, ready])?;
    Ok(ready)
}
