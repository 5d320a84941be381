//! Snapshots of the run machine, so that a resume need not replay the journal from its start.

use provost_core::{RunId, Timestamp};

use crate::{StoreError, Tx, params};

table! {
    /// A snapshot.
    RunSnapshotRow in "run_snapshot" {
        /// The run.
        run_id: RunId,
        /// Number of the last journal entry that the snapshot contains.
        entry_no as "fed": u64,
        /// The machine as JSON, if it is small.
        body: Option<String>,
        /// Hash of the blob with the machine, if it is large.
        blob: Option<String>,
        /// Time of creation.
        created: Timestamp,
    }
}

/// Returns the newest snapshot of a run. `None` if there is none.
pub fn latest(tx: &mut Tx<'_>, run_id: RunId) -> Result<Option<RunSnapshotRow>, StoreError> {
    let sql = RunSnapshotRow::select("WHERE run_id = ?1 ORDER BY fed DESC LIMIT 1");
    tx.fetch_optional(&sql, params![run_id])
}

/// Returns the newest snapshot of a run up to a journal entry: the start of a fork. `None` if there is none.
pub fn at(
    tx: &mut Tx<'_>,
    run_id: RunId,
    entry_no: u64,
) -> Result<Option<RunSnapshotRow>, StoreError> {
    let sql = RunSnapshotRow::select("WHERE run_id = ?1 AND fed <= ?2 ORDER BY fed DESC LIMIT 1");
    tx.fetch_optional(&sql, params![run_id, entry_no])
}

/// Removes the snapshots of a run from before a journal entry and returns their number.
pub fn prune(tx: &mut Tx<'_>, run_id: RunId, entry_no: u64) -> Result<u64, StoreError> {
    tx.execute("DELETE FROM run_snapshot WHERE run_id = ?1 AND fed < ?2", params![run_id, entry_no])
}

/// Returns the journal entries at which a run has snapshots, with the times of creation, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    run_id: RunId,
    limit: u64,
) -> Result<Vec<(u64, Timestamp)>, StoreError> {
    tx.fetch_all(
        "SELECT fed, created FROM run_snapshot WHERE run_id = ?1 ORDER BY fed DESC LIMIT ?2",
        params![run_id, limit],
    )
}
