//! Rows that the end of a run must settle. One query finds out which kinds exist, because most runs have none.

use provost_core::scheduling::TimerKind;

use crate::table::work::run::RunRow;
use crate::{FromRow, Row, StoreError, Tx, params};

/// Kinds of rows that an ending run leaves behind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PendingWork {
    /// True if the run has pending approvals.
    pub approvals: bool,
    /// True if standing approvals exist that cover this run only.
    pub grants: bool,
    /// True if the run has timers of the requested kinds.
    pub timers: bool,
    /// True if the run has inputs without a response.
    pub inputs: bool,
    /// True if the run has children that have not ended.
    pub children: bool,
    /// True if the task has other runs that have not ended.
    pub other_runs: bool,
    /// True if the session has other queued runs.
    pub queued_runs: bool,
}

impl FromRow for PendingWork {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            approvals: row.take()?,
            grants: row.take()?,
            timers: row.take()?,
            inputs: row.take()?,
            children: row.take()?,
            other_runs: row.take()?,
            queued_runs: row.take()?,
        })
    }
}

/// Returns which kinds of rows a run leaves behind. Only timers of the given kinds count.
pub fn of_run(
    tx: &mut Tx<'_>,
    run: &RunRow,
    [a, b, c]: [TimerKind; 3],
) -> Result<PendingWork, StoreError> {
    let sql = "SELECT
        CASE WHEN EXISTS (SELECT 1 FROM approval WHERE run_id = ?1 AND state = 'pending') THEN 1 ELSE 0 END,
        CASE WHEN EXISTS (SELECT 1 FROM approval_grant WHERE namespace = ?3 AND scope = 'run:' || ?1) THEN 1 ELSE 0 END,
        CASE WHEN EXISTS (SELECT 1 FROM timer WHERE ref = ?1 AND kind IN (?5, ?6, ?7)) THEN 1 ELSE 0 END,
        CASE WHEN EXISTS (SELECT 1 FROM input WHERE run_id = ?1 AND state IN ('pending', 'claimed')) THEN 1 ELSE 0 END,
        CASE WHEN EXISTS (SELECT 1 FROM run WHERE parent_run_id = ?1 AND phase <> 'done') THEN 1 ELSE 0 END,
        CASE WHEN EXISTS (SELECT 1 FROM run WHERE task_id = ?2 AND phase <> 'done' AND id <> ?1) THEN 1 ELSE 0 END,
        CASE WHEN EXISTS (SELECT 1 FROM run WHERE namespace = ?3 AND session_id = ?4 AND phase = 'queued'
               AND id <> ?1) THEN 1 ELSE 0 END";
    tx.fetch_one(sql, params![run.id, run.task_id, run.namespace, run.session_id, a, b, c])
}
