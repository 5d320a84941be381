//! What is left of a run that ends. Mostly nothing is, and one look finds that out.

use crate::table::work::run::RunRow;
use crate::{FromRow, Row, StoreError, Tx, params};

/// What there is of a run, of its task and of its session besides the run itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Left {
    /// Questions without an answer.
    pub questions: bool,
    /// Grants that count for this run only.
    pub grants: bool,
    /// Timers of the run, of the kinds that were asked for.
    pub timers: bool,
    /// Messages that the run has not answered.
    pub inputs: bool,
    /// Runs that it has started and that have not ended.
    pub children: bool,
    /// Other runs of its task that have not ended.
    pub others: bool,
    /// Other runs of its session that wait.
    pub waiting: bool,
}

impl FromRow for Left {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            questions: row.take()?,
            grants: row.take()?,
            timers: row.take()?,
            inputs: row.take()?,
            children: row.take()?,
            others: row.take()?,
            waiting: row.take()?,
        })
    }
}

/// Looks what is left of a run, with timers of these kinds.
pub fn of_run(tx: &mut Tx<'_>, run: &RunRow, [a, b, c]: [&str; 3]) -> Result<Left, StoreError> {
    let sql = "SELECT
        CASE WHEN EXISTS (SELECT 1 FROM approval WHERE run_id = ?1 AND state = 'pending') THEN 1 ELSE 0 END,
        CASE WHEN EXISTS (SELECT 1 FROM approval_grant WHERE namespace = ?3 AND scope = 'run:' || ?1) THEN 1 ELSE 0 END,
        CASE WHEN EXISTS (SELECT 1 FROM timer WHERE ref = ?1 AND kind IN (?5, ?6, ?7)) THEN 1 ELSE 0 END,
        CASE WHEN EXISTS (SELECT 1 FROM input WHERE run_id = ?1 AND state IN ('pending', 'claimed')) THEN 1 ELSE 0 END,
        CASE WHEN EXISTS (SELECT 1 FROM run WHERE parent_run_id = ?1 AND phase <> 'done') THEN 1 ELSE 0 END,
        CASE WHEN EXISTS (SELECT 1 FROM run WHERE task_id = ?2 AND phase <> 'done' AND id <> ?1) THEN 1 ELSE 0 END,
        CASE WHEN EXISTS (SELECT 1 FROM run WHERE namespace = ?3 AND session_id = ?4 AND phase = 'queued'
               AND id <> ?1) THEN 1 ELSE 0 END";
    tx.one(sql, params![run.id, run.task_id, run.namespace, run.session_id, a, b, c])
}
