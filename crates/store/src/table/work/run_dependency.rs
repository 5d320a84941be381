//! Dependencies: the runs whose end a join waits for.

use provost_core::RunId;

use crate::{StoreError, Tx, params};

table! {
    /// A dependency of a join.
    RunDependencyRow in "run_dependency" {
        /// The join.
        join_id: String,
        /// Position among the dependencies of the join.
        place: u64,
        /// The run whose end the join waits for.
        depends_on: RunId,
        /// True if that run has ended.
        done: bool,
    }
}

/// Number of dependencies of a join.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct JoinProgress {
    /// All dependencies.
    pub total: u64,
    /// Dependencies that have ended.
    pub done: u64,
}

/// Returns the dependencies of a join in the order in which they were declared.
pub fn dependencies(tx: &mut Tx<'_>, join: &str) -> Result<Vec<RunId>, StoreError> {
    let sql = "SELECT depends_on FROM run_dependency WHERE join_id = ?1 ORDER BY place";
    tx.fetch_all(sql, params![join])
}

/// Counts the dependencies of a join.
pub fn progress(tx: &mut Tx<'_>, join: &str) -> Result<JoinProgress, StoreError> {
    let sql = "SELECT count(*), coalesce(sum(done), 0) FROM run_dependency WHERE join_id = ?1";
    let (total, done) = tx.fetch_one(sql, params![join])?;
    Ok(JoinProgress { total, done })
}

/// Marks a run as ended in all joins that depend on it. Returns the waiting runs.
pub fn complete(tx: &mut Tx<'_>, ended: RunId) -> Result<Vec<RunId>, StoreError> {
    let waiting = tx.fetch_all(
        "SELECT DISTINCT j.run_id FROM run_dependency d JOIN run_join j ON j.id = d.join_id
          WHERE d.depends_on = ?1 AND d.done = 0",
        params![ended],
    )?;
    if !waiting.is_empty() {
        let sql = "UPDATE run_dependency SET done = 1 WHERE depends_on = ?1 AND done = 0";
        tx.execute_fenced(sql, params![ended])?;
    }
    Ok(waiting)
}
