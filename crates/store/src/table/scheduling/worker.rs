//! Workers, each with the lock file that proves it alive.

use provost_core::{Timestamp, WorkerId};

use crate::{StoreError, Tx, params};

table! {
    /// A worker.
    WorkerRow in "worker" {
        /// The id, used by one process only.
        id: WorkerId,
        /// Name of the machine.
        host: String,
        /// Process id.
        pid: u64,
        /// Format version of the worker's build; the worker claims only runs with a `min_build` up to it.
        build: u64,
        /// Path of the lock file that the worker holds while it runs.
        lock_path: String,
        /// Time of the start.
        started: Timestamp,
        /// Time of the last heartbeat.
        last_heartbeat as "seen": Timestamp,
        /// Time at which the worker stopped or was found dead.
        stopped: Option<Timestamp>,
        /// Pool of runs that the worker claims.
        pool: String,
        /// Maximum number of concurrent runs.
        capacity: u64,
        /// The sessions that the worker serves, as a JSON list of pairs of namespace and session; `None` for all
        /// sessions.
        session_filter as "focus": Option<String>,
        /// Time before which the worker does not claim runs, set after repeated crashes of the service.
        claims_paused_until as "idle_until": Option<Timestamp>,
        /// Time at which the worker started to drain. A draining worker claims no more runs.
        draining: Option<Timestamp>,
    }
}

/// Returns the worker with this id. `None` if it does not exist.
pub fn get(tx: &mut Tx<'_>, id: WorkerId) -> Result<Option<WorkerRow>, StoreError> {
    tx.fetch_optional(&WorkerRow::select("WHERE id = ?1"), params![id])
}

/// Returns the workers that have not stopped, oldest first. They include crashed workers that were not detected yet.
pub fn live(tx: &mut Tx<'_>) -> Result<Vec<WorkerRow>, StoreError> {
    tx.fetch_all(&WorkerRow::select("WHERE stopped IS NULL ORDER BY id"), params![])
}

/// Records a heartbeat.
pub fn heartbeat(tx: &mut Tx<'_>, id: WorkerId) -> Result<(), StoreError> {
    tx.execute_fenced("UPDATE worker SET seen = ?2 WHERE id = ?1", params![id, tx.now()]).map(drop)
}

/// Sets the sessions that a worker serves, as JSON.
pub fn set_session_filter(tx: &mut Tx<'_>, id: WorkerId, focus: &str) -> Result<(), StoreError> {
    tx.execute_fenced("UPDATE worker SET focus = ?2 WHERE id = ?1", params![id, focus]).map(drop)
}

/// Records that a worker is draining.
pub fn drain(tx: &mut Tx<'_>, id: WorkerId) -> Result<(), StoreError> {
    tx.execute_fenced(
        "UPDATE worker SET draining = ?2 WHERE id = ?1 AND draining IS NULL",
        params![id, tx.now()],
    )
    .map(drop)
}

/// Records that a worker has stopped. Returns false if this was recorded before.
pub fn stop(tx: &mut Tx<'_>, id: WorkerId) -> Result<bool, StoreError> {
    let changed = tx.execute_fenced(
        "UPDATE worker SET stopped = ?2 WHERE id = ?1 AND stopped IS NULL",
        params![id, tx.now()],
    )?;
    Ok(changed == 1)
}
