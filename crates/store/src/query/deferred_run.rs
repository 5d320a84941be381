//! Deferred runs: children of one call that start after a sibling has ended.

use provost_core::{RunId, Timestamp};

use crate::{StoreError, Tx, params};

/// Returns the next deferred child of a step. A deferred run has `deferred` as its earliest start time.
pub fn next(
    tx: &mut Tx<'_>,
    parent: RunId,
    step: u64,
    deferred: Timestamp,
) -> Result<Option<RunId>, StoreError> {
    let sql = "SELECT id FROM run
                WHERE parent_run_id = ?1 AND parent_step = ?2 AND phase = 'queued' AND not_before = ?3
                ORDER BY rank, id LIMIT 1";
    tx.fetch_optional(sql, params![parent, step, deferred])
}
