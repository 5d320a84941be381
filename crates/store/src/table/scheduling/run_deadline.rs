//! Runs whose deadline has passed. A run with a cancellation request is not listed again.

use provost_core::{RunId, Timestamp};

use crate::{StoreError, Tx, params};

/// Returns runs whose deadline has passed and that have no cancellation request, earliest deadline first.
pub fn exceeded(tx: &mut Tx<'_>, limit: u64) -> Result<Vec<RunId>, StoreError> {
    // SQLite uses the index `run_deadline` only for exactly this condition.
    let sql = "SELECT id FROM run
                WHERE deadline IS NOT NULL AND phase <> 'done' AND cancel_requested IS NULL AND deadline <= ?1
                ORDER BY deadline LIMIT ?2";
    tx.fetch_all(sql, params![tx.now(), limit])
}

/// Returns the next deadline of a run without a cancellation request. `None` if there is none.
pub fn next(tx: &mut Tx<'_>) -> Result<Option<Timestamp>, StoreError> {
    tx.fetch_one(
        "SELECT min(deadline) FROM run
          WHERE deadline IS NOT NULL AND phase <> 'done' AND cancel_requested IS NULL",
        params![],
    )
}

/// Moves the deadline of a run to `until`, unless it is already later.
pub fn postpone(tx: &mut Tx<'_>, run: RunId, until: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE run SET deadline = ?2 WHERE id = ?1 AND deadline < ?2";
    tx.execute_fenced(sql, params![run, until]).map(drop)
}
