//! Inputs: messages of users and programs to a task. Each is delivered once and in order.

use std::sync::LazyLock;

use provost_core::lifecycle::{InputKind, InputOutcome, InputState, InputTransition};
use provost_core::scheduling::InputMode;
use provost_core::{InputId, MessageId, RunId, TaskId, Timestamp};

use crate::transaction::change::Change;
use crate::{StoreError, Tx, params};

table! {
    /// An input.
    InputRow in "input" {
        /// The id.
        id: InputId,
        /// Namespace of the row.
        namespace: String,
        /// The task that receives it.
        task_id: TaskId,
        /// The run that it is assigned to.
        run_id: Option<RunId>,
        /// Position among the inputs of the task.
        seq: u64,
        /// Queue mode.
        mode: InputMode,
        /// Kind of the input: a message, an answer.
        kind: InputKind,
        /// The message.
        message_id: MessageId,
        /// Sender and origin, as JSON.
        provenance: String,
        /// Hash of the request. A different request under the same key is a conflict.
        request_hash: String,
        /// The caller's idempotency key, unique within the task; empty if there is none.
        idem_key: String,
        /// State of the input.
        state: InputState,
        /// Outcome that was returned to the caller.
        outcome: InputOutcome,
        /// The epoch of the attempt that claimed it.
        claimed_epoch: Option<u64>,
        /// Time from which it may be delivered.
        due: Timestamp,
        /// Time of creation.
        created: Timestamp,
        /// Time of the last change.
        updated: Timestamp,
    }
}

/// The SQL of a transition of inputs.
pub(super) fn change(transition: InputTransition) -> Change {
    Change::new(transition.target(), &InputState::sources(transition))
}

/// Returns the input with this id. `None` if it does not exist.
pub fn get(tx: &mut Tx<'_>, id: InputId) -> Result<Option<InputRow>, StoreError> {
    tx.fetch_optional(&InputRow::select("WHERE id = ?1"), params![id])
}

/// Returns the input of a task with this idempotency key. `None` if it does not exist.
pub fn by_key(
    tx: &mut Tx<'_>,
    task_id: TaskId,
    idem_key: &str,
) -> Result<Option<InputRow>, StoreError> {
    let sql = InputRow::select("WHERE task_id = ?1 AND idem_key = ?2 AND idem_key <> ''");
    tx.fetch_optional(&sql, params![task_id, idem_key])
}

/// Returns the input with this id. `None` if the namespace has none with this id.
pub fn find(tx: &mut Tx<'_>, namespace: &str, id: InputId) -> Result<Option<InputRow>, StoreError> {
    tx.fetch_optional(&InputRow::select("WHERE id = ?2 AND namespace = ?1"), params![namespace, id])
}

/// Returns the pending inputs of a task, in order.
pub fn pending(tx: &mut Tx<'_>, task_id: TaskId, limit: u64) -> Result<Vec<InputRow>, StoreError> {
    let sql = InputRow::select("WHERE task_id = ?1 AND state = 'pending' ORDER BY seq LIMIT ?2");
    tx.fetch_all(&sql, params![task_id, limit])
}

/// Returns the inputs of a task after position `after`, in order.
pub fn of_task(
    tx: &mut Tx<'_>,
    task_id: TaskId,
    after: u64,
    limit: u64,
) -> Result<Vec<InputRow>, StoreError> {
    let sql = InputRow::select("WHERE task_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3");
    tx.fetch_all(&sql, params![task_id, after, limit])
}

/// Returns the pending inputs of a run in the order in which the run reads them: a summary of dropped inputs comes
/// first.
pub fn pending_of_run(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<InputRow>, StoreError> {
    let sql = InputRow::select(
        "WHERE run_id = ?1 AND state = 'pending' ORDER BY CASE kind WHEN 'summary' THEN 0 ELSE 1 END, seq",
    );
    tx.fetch_all(&sql, params![run_id])
}

/// Returns true if a run has pending inputs.
pub fn has_pending(tx: &mut Tx<'_>, run_id: RunId) -> Result<bool, StoreError> {
    tx.exists("SELECT 1 FROM input WHERE run_id = ?1 AND state = 'pending'", params![run_id])
}

/// Returns true if a run has a pending input that interrupts its current work.
pub fn has_interrupts(tx: &mut Tx<'_>, run_id: RunId) -> Result<bool, StoreError> {
    tx.exists(
        "SELECT 1 FROM input WHERE run_id = ?1 AND state = 'pending' AND outcome = 'interrupted'",
        params![run_id],
    )
}

/// Claims the pending inputs of a run for an attempt. A claimed input can no longer be withdrawn.
pub fn claim_pending(tx: &mut Tx<'_>, run_id: RunId, epoch: u64) -> Result<(), StoreError> {
    tx.execute_fenced(
        "UPDATE input SET claimed_epoch = ?2, updated = ?3 WHERE run_id = ?1 AND state = 'pending'",
        params![run_id, epoch, tx.now()],
    )
    .map(drop)
}

/// Claims the pending inputs of a run as its initial inputs.
pub fn claim_first(tx: &mut Tx<'_>, run_id: RunId) -> Result<(), StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let Change { set, from } = change(InputTransition::Claimed);
        format!("UPDATE input SET {set}, updated = ?2 WHERE run_id = ?1 AND {from}")
    });
    tx.execute_fenced(&SQL, params![run_id, tx.now()]).map(drop)
}

/// Returns the initial inputs of a run, in order.
pub fn first_of_run(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<InputRow>, StoreError> {
    let sql = InputRow::select(
        "WHERE run_id = ?1 AND claimed_epoch IS NULL AND state IN ('claimed', 'consumed')
         ORDER BY CASE kind WHEN 'summary' THEN 0 ELSE 1 END, seq",
    );
    tx.fetch_all(&sql, params![run_id])
}

/// Returns all inputs of a run, including the initial ones, in order.
pub fn of_run(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<InputRow>, StoreError> {
    tx.fetch_all(&InputRow::select("WHERE run_id = ?1 ORDER BY seq"), params![run_id])
}

/// Returns the inputs that an ending run leaves unconsumed, in order: those that it read without an answer of the
/// model, and the pending ones.
pub fn unconsumed(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<InputRow>, StoreError> {
    let sql = InputRow::select(
        "WHERE run_id = ?1 AND (state = 'pending' OR (state = 'claimed' AND claimed_epoch IS NOT NULL)) ORDER BY seq",
    );
    tx.fetch_all(&sql, params![run_id])
}

/// Marks the initial inputs of a run that has ended as consumed.
pub fn settle_first(tx: &mut Tx<'_>, run_id: RunId) -> Result<(), StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let Change { set, from } = change(InputTransition::Consumed);
        format!(
            "UPDATE input SET {set}, updated = ?2 WHERE run_id = ?1 AND {from} AND claimed_epoch IS NULL"
        )
    });
    tx.execute_fenced(&SQL, params![run_id, tx.now()]).map(drop)
}

/// Sets the state of an input. The caller must have locked its task.
pub fn set_state(tx: &mut Tx<'_>, id: InputId, state: InputState) -> Result<(), StoreError> {
    let sql = "UPDATE input SET state = ?2, updated = ?3 WHERE id = ?1";
    tx.execute(sql, params![id, state, tx.now()]).map(drop)
}

/// Makes an input pending again that an ended run left unconsumed. The caller must have locked its task.
pub fn requeue(tx: &mut Tx<'_>, id: InputId, outcome: InputOutcome) -> Result<(), StoreError> {
    static SQL: LazyLock<String> = LazyLock::new(|| {
        let Change { set, from } = change(InputTransition::Requeued);
        format!(
            "UPDATE input SET {set}, outcome = ?2, claimed_epoch = NULL, updated = ?3 WHERE id = ?1 AND {from}"
        )
    });
    tx.execute(&SQL, params![id, outcome, tx.now()]).map(drop)
}

/// Replaces the message of an input. The caller must have locked its task.
pub fn set_message(tx: &mut Tx<'_>, id: InputId, message: MessageId) -> Result<(), StoreError> {
    let sql = "UPDATE input SET message_id = ?2, updated = ?3 WHERE id = ?1";
    tx.execute(sql, params![id, message, tx.now()]).map(drop)
}

/// Sets the kind of an input. The caller must have locked its task.
pub fn set_kind(tx: &mut Tx<'_>, id: InputId, kind: InputKind) -> Result<(), StoreError> {
    tx.execute("UPDATE input SET kind = ?2 WHERE id = ?1", params![id, kind]).map(drop)
}

/// Assigns an input to a run. The caller must have locked its task.
pub fn assign(tx: &mut Tx<'_>, id: InputId, run: RunId) -> Result<(), StoreError> {
    let sql = "UPDATE input SET run_id = ?2, updated = ?3 WHERE id = ?1";
    tx.execute(sql, params![id, run, tx.now()]).map(drop)
}
