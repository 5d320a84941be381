//! The journal: what a run was about to do, and what came of it.

use provost_core::{MessageId, RunId, Timestamp};

use crate::{StoreError, Tx, params};

table! {
    /// One step.
    RunStepRow in "run_step" {
        /// The run.
        run_id: RunId,
        /// Its number.
        step: u64,
        /// What it does.
        kind: String,
        /// The version of its format.
        v: u64,
        /// Where it stands.
        state: String,
        /// The key by which a target sees a repetition.
        effect_key: Option<String>,
        /// What may be done about it after a crash.
        effect_class: Option<String>,
        /// The hash of what goes in.
        input_hash: Option<String>,
        /// The model's id of the tool call.
        call_id: Option<String>,
        /// The name of the tool or model.
        name: Option<String>,
        /// How often it was tried.
        tries: u64,
        /// The epoch that wrote it last.
        epoch: u64,
        /// Its place in the order of feeding.
        fed: Option<u64>,
        /// The message that came of it.
        message_id: Option<MessageId>,
        /// What is fed to the run machine as JSON, if it is small.
        body: Option<String>,
        /// The blob that holds it, if it is not.
        blob: Option<String>,
        /// The money reserved for it.
        reserved_micros: i64,
        /// When it was started.
        started: Timestamp,
        /// When it ended.
        ended: Option<Timestamp>,
        /// True if the session got everything up to it in the same commit, which was fed right after it.
        saved: bool,
    }
}

impl RunStepRow {
    /// The last feed that came with the step, if it was fed.
    pub fn last_fed(&self) -> Option<u64> {
        self.fed.map(|fed| fed + u64::from(self.saved))
    }
}

/// The step of a run with the number.
pub fn get(tx: &mut Tx<'_>, run_id: RunId, step: u64) -> Result<Option<RunStepRow>, StoreError> {
    tx.optional(&RunStepRow::select("WHERE run_id = ?1 AND step = ?2"), params![run_id, step])
}

/// The steps of a run that were fed after the feeding `fed`, in the order of feeding.
pub fn fed_after(
    tx: &mut Tx<'_>,
    run_id: RunId,
    fed: u64,
    limit: u64,
) -> Result<Vec<RunStepRow>, StoreError> {
    let sql = RunStepRow::select("WHERE run_id = ?1 AND fed > ?2 ORDER BY fed LIMIT ?3");
    tx.all(&sql, params![run_id, fed, limit])
}

/// The step of a run that was fed last.
pub fn last_fed(tx: &mut Tx<'_>, run_id: RunId) -> Result<Option<RunStepRow>, StoreError> {
    let sql = RunStepRow::select("WHERE run_id = ?1 AND fed IS NOT NULL ORDER BY fed DESC LIMIT 1");
    tx.optional(&sql, params![run_id])
}

/// The steps of a run whose outcome is not known, in order.
pub fn open(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<RunStepRow>, StoreError> {
    let sql = RunStepRow::select(
        "WHERE run_id = ?1 AND step >= (SELECT open_from FROM run WHERE id = ?1)
            AND state IN ('planned', 'started', 'unknown') ORDER BY step",
    );
    tx.all(&sql, params![run_id])
}

/// The steps of a run after the number `after`, in order.
pub fn after(
    tx: &mut Tx<'_>,
    run_id: RunId,
    after: u64,
    limit: u64,
) -> Result<Vec<RunStepRow>, StoreError> {
    let sql = RunStepRow::select("WHERE run_id = ?1 AND step > ?2 ORDER BY step LIMIT ?3");
    tx.all(&sql, params![run_id, after, limit])
}

/// What the model said last in a run.
pub fn last_answer(tx: &mut Tx<'_>, run_id: RunId) -> Result<Option<MessageId>, StoreError> {
    tx.optional(
        "SELECT message_id FROM run_step
          WHERE run_id = ?1 AND kind = 'model_call' AND state = 'committed' AND message_id IS NOT NULL
          ORDER BY step DESC LIMIT 1",
        params![run_id],
    )
}

/// Notes that nothing is set aside any more for steps of a run whose outcome is not known.
pub fn unreserve(tx: &mut Tx<'_>, run_id: RunId) -> Result<(), StoreError> {
    tx.execute(
        "UPDATE run_step SET reserved_micros = 0
          WHERE run_id = ?1 AND step >= (SELECT open_from FROM run WHERE id = ?1)
            AND reserved_micros <> 0 AND state IN ('planned', 'started', 'unknown')",
        params![run_id],
    )
    .map(drop)
}
