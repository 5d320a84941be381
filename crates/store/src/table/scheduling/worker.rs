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
        /// Which runs it takes.
        pool: String,
        /// Runs that it carries at once.
        capacity: u64,
        /// The sessions it serves as a JSON list of namespace and session; all of them if there is none.
        focus: Option<String>,
        /// It begins nothing before, because the service crashed again and again.
        idle_until: Option<Timestamp>,
        /// When it was told to stop: it begins nothing more.
        draining: Option<Timestamp>,
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
    tx.execute_fenced("UPDATE worker SET seen = ?2 WHERE id = ?1", params![id, tx.now()]).map(drop)
}

/// Notes which sessions a node serves.
pub fn focus(tx: &mut Tx<'_>, id: WorkerId, focus: &str) -> Result<(), StoreError> {
    tx.execute_fenced("UPDATE worker SET focus = ?2 WHERE id = ?1", params![id, focus]).map(drop)
}

/// Notes that a node begins nothing more.
pub fn drain(tx: &mut Tx<'_>, id: WorkerId) -> Result<(), StoreError> {
    tx.execute_fenced(
        "UPDATE worker SET draining = ?2 WHERE id = ?1 AND draining IS NULL",
        params![id, tx.now()],
    )
    .map(drop)
}

/// Notes that a node has ended; false if that was known.
pub fn stop(tx: &mut Tx<'_>, id: WorkerId) -> Result<bool, StoreError> {
    let changed = tx.execute_fenced(
        "UPDATE worker SET stopped = ?2 WHERE id = ?1 AND stopped IS NULL",
        params![id, tx.now()],
    )?;
    Ok(changed == 1)
}
