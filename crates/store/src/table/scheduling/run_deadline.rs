//! Runs whose time is over. Whoever is asked to end is not told twice.

use provost_core::{RunId, Timestamp};

use crate::{StoreError, Tx, params};

/// Runs whose time is over and that nobody has told, the longest first.
pub fn over(tx: &mut Tx<'_>, limit: u64) -> Result<Vec<RunId>, StoreError> {
    // Written like the index `run_deadline`, which only so is used.
    let sql = "SELECT id FROM run
                WHERE deadline IS NOT NULL AND phase <> 'done' AND cancel_requested IS NULL AND deadline <= ?1
                ORDER BY deadline LIMIT ?2";
    tx.all(sql, params![tx.now(), limit])
}

/// When the time of the next run is over.
pub fn next(tx: &mut Tx<'_>) -> Result<Option<Timestamp>, StoreError> {
    tx.one(
        "SELECT min(deadline) FROM run
          WHERE deadline IS NOT NULL AND phase <> 'done' AND cancel_requested IS NULL",
        params![],
    )
}

/// Gives a run more time; a later deadline stays.
pub fn postpone(tx: &mut Tx<'_>, run: RunId, until: Timestamp) -> Result<(), StoreError> {
    let sql = "UPDATE run SET deadline = ?2 WHERE id = ?1 AND deadline < ?2";
    tx.execute_fenced(sql, params![run, until]).map(drop)
}
