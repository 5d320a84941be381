//! The run machine as it stood after a step, so that a resume need not fold from the start.

use provost_core::{RunId, Timestamp};

use crate::{StoreError, Tx, params};

table! {
    /// One snapshot.
    RunSnapshotRow in "run_snapshot" {
        /// The run.
        run_id: RunId,
        /// The feeding after which it was taken.
        fed: u64,
        /// The machine as JSON, if it is small.
        body: Option<String>,
        /// The blob that holds it, if it is not.
        blob: Option<String>,
        /// When it was taken.
        created: Timestamp,
    }
}

/// The newest snapshot of a run.
pub fn latest(tx: &mut Tx<'_>, run_id: RunId) -> Result<Option<RunSnapshotRow>, StoreError> {
    let sql = RunSnapshotRow::select("WHERE run_id = ?1 ORDER BY fed DESC LIMIT 1");
    tx.optional(&sql, params![run_id])
}

/// The newest snapshot of a run that was not taken after the feeding `fed`: where a fork starts.
pub fn at(tx: &mut Tx<'_>, run_id: RunId, fed: u64) -> Result<Option<RunSnapshotRow>, StoreError> {
    let sql = RunSnapshotRow::select("WHERE run_id = ?1 AND fed <= ?2 ORDER BY fed DESC LIMIT 1");
    tx.optional(&sql, params![run_id, fed])
}

/// Removes the snapshots of a run that were taken before the feeding `fed`.
pub fn prune(tx: &mut Tx<'_>, run_id: RunId, fed: u64) -> Result<u64, StoreError> {
    tx.execute("DELETE FROM run_snapshot WHERE run_id = ?1 AND fed < ?2", params![run_id, fed])
}

/// After which feedings a run has snapshots and when they were taken, the newest first.
pub fn taken(
    tx: &mut Tx<'_>,
    run_id: RunId,
    limit: u64,
) -> Result<Vec<(u64, Timestamp)>, StoreError> {
    tx.all(
        "SELECT fed, created FROM run_snapshot WHERE run_id = ?1 ORDER BY fed DESC LIMIT ?2",
        params![run_id, limit],
    )
}
