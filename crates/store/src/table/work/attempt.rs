//! Attempts of runs: each is one try by one worker, under one epoch.

use provost_core::lifecycle::{AttemptReason, AttemptStatus};
use provost_core::recovery::OutcomeCode;
use provost_core::{ExecutionId, RunId, Timestamp, WorkerId};

use crate::{StoreError, Tx, params};

table! {
    /// An attempt of a run.
    AttemptRow in "attempt" {
        /// The run.
        run_id: RunId,
        /// Number of the attempt, starting at 1.
        attempt_no: u64,
        /// Reason of the attempt: first, resumed, retried.
        strategy: AttemptReason,
        /// Status of the attempt.
        status: AttemptStatus,
        /// The epoch that fences its writes.
        epoch: u64,
        /// Provider of the model.
        provider: Option<String>,
        /// The model.
        model: Option<String>,
        /// The execution environment.
        execution_id: ExecutionId,
        /// The worker.
        worker_id: WorkerId,
        /// Time of the start.
        started: Timestamp,
        /// Time of the end.
        ended: Option<Timestamp>,
        /// Outcome code.
        outcome_code: Option<OutcomeCode>,
        /// Explanation of the outcome.
        detail: Option<String>,
    }
}

/// Returns the attempt of a run with this number. `None` if it does not exist.
pub fn get(
    tx: &mut Tx<'_>,
    run_id: RunId,
    attempt_no: u64,
) -> Result<Option<AttemptRow>, StoreError> {
    let sql = AttemptRow::select("WHERE run_id = ?1 AND attempt_no = ?2");
    tx.fetch_optional(&sql, params![run_id, attempt_no])
}

/// The end of an attempt.
#[derive(Debug, Clone, Copy)]
pub struct EndAttempt<'a> {
    /// Final status.
    pub status: AttemptStatus,
    /// Outcome code.
    pub outcome_code: Option<OutcomeCode>,
    /// Explanation of the outcome.
    pub detail: Option<&'a str>,
}

/// Records the end of an attempt.
pub fn end(
    tx: &mut Tx<'_>,
    run_id: RunId,
    attempt_no: u64,
    end: EndAttempt<'_>,
) -> Result<(), StoreError> {
    let EndAttempt { status, outcome_code, detail } = end;
    tx.execute(
        "UPDATE attempt SET status = ?3, ended = ?4, outcome_code = ?5, detail = ?6
          WHERE run_id = ?1 AND attempt_no = ?2",
        params![run_id, attempt_no, status, tx.now(), outcome_code, detail],
    )
    .map(drop)
}

/// Returns the start time of an attempt; `None` if the attempt does not exist.
pub fn started(
    tx: &mut Tx<'_>,
    run_id: RunId,
    attempt_no: u64,
) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT started FROM attempt WHERE run_id = ?1 AND attempt_no = ?2";
    tx.fetch_optional(sql, params![run_id, attempt_no])
}

/// Returns the attempts of a run, in order.
pub fn of_run(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<AttemptRow>, StoreError> {
    tx.fetch_all(&AttemptRow::select("WHERE run_id = ?1 ORDER BY attempt_no"), params![run_id])
}
