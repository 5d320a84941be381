//! Runs that are held: children of one call that wait for another of them to end before they begin.

use provost_core::{RunId, Timestamp};

use crate::{StoreError, Tx, params};

/// The first of the runs that one step of a run has started and that are held, which is what their time says.
pub fn next(
    tx: &mut Tx<'_>,
    parent: RunId,
    step: u64,
    held: Timestamp,
) -> Result<Option<RunId>, StoreError> {
    let sql = "SELECT id FROM run
                WHERE parent_run_id = ?1 AND parent_step = ?2 AND phase = 'queued' AND not_before = ?3
                ORDER BY rank, id LIMIT 1";
    tx.optional(sql, params![parent, step, held])
}
