//! Running nodes, each with the lock file that proves it alive.

use provost_core::{Timestamp, WorkerId};

use crate::{StoreError, Tx, params};

table! {
    /// One node.
    WorkerRow in "worker" {
        /// The id, used by one process only.
        id: WorkerId,
        /// The machine.
        host: String,
        /// The process.
        pid: u64,
        /// The build it runs.
        build: u64,
        /// The lock it holds while it lives.
        lock_path: String,
        /// When it was started.
        started: Timestamp,
        /// When it last said a word.
        seen: Timestamp,
        /// When it ended, or was found dead.
        stopped: Option<Timestamp>,
    }
}

/// The node with the id.
pub fn get(tx: &mut Tx<'_>, id: WorkerId) -> Result<Option<WorkerRow>, StoreError> {
    tx.optional(&WorkerRow::select("WHERE id = ?1"), params![id])
}

/// The nodes that have not ended as far as is known, oldest first.
pub fn live(tx: &mut Tx<'_>) -> Result<Vec<WorkerRow>, StoreError> {
    tx.all(&WorkerRow::select("WHERE stopped IS NULL ORDER BY id"), params![])
}

/// Notes that a node is there.
pub fn seen(tx: &mut Tx<'_>, id: WorkerId) -> Result<(), StoreError> {
    tx.execute("UPDATE worker SET seen = ?2 WHERE id = ?1", params![id, tx.now()]).map(drop)
}

/// Notes that a node has ended; false if that was known.
pub fn stop(tx: &mut Tx<'_>, id: WorkerId) -> Result<bool, StoreError> {
    let changed = tx.execute(
        "UPDATE worker SET stopped = ?2 WHERE id = ?1 AND stopped IS NULL",
        params![id, tx.now()],
    )?;
    Ok(changed == 1)
}
