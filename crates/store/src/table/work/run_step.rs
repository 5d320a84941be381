//! The journal of runs: each step is stored before its effect and updated with its outcome.

use provost_core::lifecycle::{StepKind, StepState};
use provost_core::recovery::{EffectClass, EffectKey};
use provost_core::{MessageId, RunId, Timestamp};

use crate::{StoreError, Tx, params};

table! {
    /// A step.
    RunStepRow in "run_step" {
        /// The run.
        run_id: RunId,
        /// Number of the step.
        step: u64,
        /// Kind of the step.
        kind: StepKind,
        /// Version of the format.
        v: u64,
        /// State of the step.
        state: StepState,
        /// Idempotency key of the effect.
        effect_key: Option<EffectKey>,
        /// Effect class, which decides the recovery after a crash.
        effect_class: Option<EffectClass>,
        /// Hash of the input of the effect.
        input_hash: Option<String>,
        /// The model's id of the tool call.
        call_id: Option<String>,
        /// Name of the tool or model.
        name: Option<String>,
        /// Number of tries.
        tries: u64,
        /// The epoch of the last write.
        epoch: u64,
        /// Number of the journal entry; `None` while the step has no outcome.
        entry_no as "fed": Option<u64>,
        /// The message that the step produced.
        message_id: Option<MessageId>,
        /// The journal entry as JSON, if it is small.
        body: Option<String>,
        /// Hash of the blob with the journal entry, if it is large.
        blob: Option<String>,
        /// Amount reserved in the budgets, in millionths.
        reserved_micros: i64,
        /// Time of the start.
        started: Timestamp,
        /// Time of the end.
        ended: Option<Timestamp>,
        /// True if the same transaction committed the session up to this step. That commit is the next journal entry.
        saved: bool,
    }
}

impl RunStepRow {
    /// Returns the number of the last journal entry that was stored with the step. `None` if no entry was.
    pub fn last_entry_no(&self) -> Option<u64> {
        self.entry_no.map(|entry_no| entry_no + u64::from(self.saved))
    }
}

/// Returns the step of a run with this number. `None` if it does not exist.
pub fn get(tx: &mut Tx<'_>, run_id: RunId, step: u64) -> Result<Option<RunStepRow>, StoreError> {
    tx.fetch_optional(&RunStepRow::select("WHERE run_id = ?1 AND step = ?2"), params![run_id, step])
}

/// Returns the steps of a run after a journal entry, in the order of the journal.
pub fn entries_after(
    tx: &mut Tx<'_>,
    run_id: RunId,
    entry_no: u64,
    limit: u64,
) -> Result<Vec<RunStepRow>, StoreError> {
    let sql = RunStepRow::select("WHERE run_id = ?1 AND fed > ?2 ORDER BY fed LIMIT ?3");
    tx.fetch_all(&sql, params![run_id, entry_no, limit])
}

/// Returns the step of a run with the last journal entry. `None` if there is none.
pub fn last_entry_no(tx: &mut Tx<'_>, run_id: RunId) -> Result<Option<RunStepRow>, StoreError> {
    let sql = RunStepRow::select("WHERE run_id = ?1 AND fed IS NOT NULL ORDER BY fed DESC LIMIT 1");
    tx.fetch_optional(&sql, params![run_id])
}

/// Returns the steps of a run without an outcome, in order.
pub fn open(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<RunStepRow>, StoreError> {
    let sql = RunStepRow::select(
        "WHERE run_id = ?1 AND step >= (SELECT open_from FROM run WHERE id = ?1)
            AND state IN ('planned', 'started', 'unknown') ORDER BY step",
    );
    tx.fetch_all(&sql, params![run_id])
}

/// Returns the steps of a run after the number `after`, in order.
pub fn after(
    tx: &mut Tx<'_>,
    run_id: RunId,
    after: u64,
    limit: u64,
) -> Result<Vec<RunStepRow>, StoreError> {
    let sql = RunStepRow::select("WHERE run_id = ?1 AND step > ?2 ORDER BY step LIMIT ?3");
    tx.fetch_all(&sql, params![run_id, after, limit])
}

/// Returns the last message of the model in a run. `None` if there is none.
pub fn last_model_message(tx: &mut Tx<'_>, run_id: RunId) -> Result<Option<MessageId>, StoreError> {
    tx.fetch_optional(
        "SELECT message_id FROM run_step
          WHERE run_id = ?1 AND kind = 'model_call' AND state = 'committed' AND message_id IS NOT NULL
          ORDER BY step DESC LIMIT 1",
        params![run_id],
    )
}

/// Clears the reservations of the steps of a run without an outcome.
pub fn clear_reservation(tx: &mut Tx<'_>, run_id: RunId) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE run_step SET reserved_micros = 0
          WHERE run_id = ?1 AND step >= (SELECT open_from FROM run WHERE id = ?1)
            AND reserved_micros <> 0 AND state IN ('planned', 'started', 'unknown')",
        params![run_id],
    )
    .map(drop)
}
