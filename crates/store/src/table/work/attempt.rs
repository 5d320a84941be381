//! Attempts: one try of a run by one worker, under one epoch.

use provost_core::{ExecutionId, RunId, Timestamp, WorkerId};

use crate::{StoreError, Tx, params};

table! {
    /// One try of a run.
    AttemptRow in "attempt" {
        /// The run.
        run_id: RunId,
        /// Counts up from one.
        attempt_no: u64,
        /// Why it was started: first, resumed, retried.
        strategy: String,
        /// Where it stands.
        status: String,
        /// The epoch under which it writes.
        epoch: u64,
        /// The model's provider.
        provider: Option<String>,
        /// The model.
        model: Option<String>,
        /// The place where it runs.
        execution_id: ExecutionId,
        /// Who runs it.
        worker_id: WorkerId,
        /// When it was started.
        started: Timestamp,
        /// When it ended.
        ended: Option<Timestamp>,
        /// How it ended.
        outcome_code: Option<String>,
        /// What to say about it.
        detail: Option<String>,
    }
}

/// The attempt of a run with the number.
pub fn get(
    tx: &mut Tx<'_>,
    run_id: RunId,
    attempt_no: u64,
) -> Result<Option<AttemptRow>, StoreError> {
    let sql = AttemptRow::select("WHERE run_id = ?1 AND attempt_no = ?2");
    tx.optional(&sql, params![run_id, attempt_no])
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy)]
pub struct AttemptEnd<'a> {
    /// Where it stands now.
    pub status: &'a str,
    /// How it ended.
    pub outcome_code: Option<&'a str>,
    /// What to say about it.
    pub detail: Option<&'a str>,
}

/// Notes that an attempt has ended.
pub fn end(
    tx: &mut Tx<'_>,
    run_id: RunId,
    attempt_no: u64,
    end: AttemptEnd<'_>,
) -> Result<(), StoreError> {
    let AttemptEnd { status, outcome_code, detail } = end;
    tx.execute(
        "UPDATE attempt SET status = ?3, ended = ?4, outcome_code = ?5, detail = ?6
          WHERE run_id = ?1 AND attempt_no = ?2",
        params![run_id, attempt_no, status, tx.now(), outcome_code, detail],
    )
    .map(drop)
}

/// When an attempt was started; nothing if there is no such attempt.
pub fn started(
    tx: &mut Tx<'_>,
    run_id: RunId,
    attempt_no: u64,
) -> Result<Option<Timestamp>, StoreError> {
    let sql = "SELECT started FROM attempt WHERE run_id = ?1 AND attempt_no = ?2";
    tx.optional(sql, params![run_id, attempt_no])
}

/// The attempts of a run, in order.
pub fn of_run(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<AttemptRow>, StoreError> {
    tx.all(&AttemptRow::select("WHERE run_id = ?1 ORDER BY attempt_no"), params![run_id])
}
