//! Inputs: what people and programs say to a task, each delivered once and in order.

use provost_core::{InputId, MessageId, RunId, TaskId, Timestamp};

use crate::{StoreError, Tx, params};

table! {
    /// One input.
    InputRow in "input" {
        /// The id.
        id: InputId,
        /// The tenancy boundary.
        namespace: String,
        /// The task it is for.
        task_id: TaskId,
        /// The run it was given to.
        run_id: Option<RunId>,
        /// Its place among the task's inputs.
        seq: u64,
        /// How it is queued.
        mode: String,
        /// What it is: a message, an answer.
        kind: String,
        /// What it says.
        message_id: MessageId,
        /// Who sent it and from where, as JSON.
        provenance: String,
        /// The hash of the request: another one under the same key is a conflict.
        request_hash: String,
        /// The caller's key, unique within the task; empty if there is none.
        idem_key: String,
        /// Where it stands.
        state: String,
        /// What the caller was told.
        outcome: String,
        /// The epoch that took it.
        claimed_epoch: Option<u64>,
        /// When it may be delivered.
        due: Timestamp,
        /// When it came.
        created: Timestamp,
        /// When it last changed.
        updated: Timestamp,
    }
}

/// The input with the id.
pub fn get(tx: &mut Tx<'_>, id: InputId) -> Result<Option<InputRow>, StoreError> {
    tx.optional(&InputRow::select("WHERE id = ?1"), params![id])
}

/// The input that came to the task under the caller's key.
pub fn by_key(
    tx: &mut Tx<'_>,
    task_id: TaskId,
    idem_key: &str,
) -> Result<Option<InputRow>, StoreError> {
    let sql = InputRow::select("WHERE task_id = ?1 AND idem_key = ?2 AND idem_key <> ''");
    tx.optional(&sql, params![task_id, idem_key])
}

/// The input with the id, if it belongs to the namespace.
pub fn find(tx: &mut Tx<'_>, namespace: &str, id: InputId) -> Result<Option<InputRow>, StoreError> {
    tx.optional(&InputRow::select("WHERE id = ?2 AND namespace = ?1"), params![namespace, id])
}

/// The inputs of a task that nobody has yet, in order.
pub fn pending(tx: &mut Tx<'_>, task_id: TaskId, limit: u64) -> Result<Vec<InputRow>, StoreError> {
    let sql = InputRow::select("WHERE task_id = ?1 AND state = 'pending' ORDER BY seq LIMIT ?2");
    tx.all(&sql, params![task_id, limit])
}

/// The inputs of a task after the place `after`, in order.
pub fn of_task(
    tx: &mut Tx<'_>,
    task_id: TaskId,
    after: u64,
    limit: u64,
) -> Result<Vec<InputRow>, StoreError> {
    let sql = InputRow::select("WHERE task_id = ?1 AND seq > ?2 ORDER BY seq LIMIT ?3");
    tx.all(&sql, params![task_id, after, limit])
}

/// What waits for a run, in the order in which it reads it: a summary of what was dropped comes first.
pub fn waiting_for_run(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<InputRow>, StoreError> {
    let sql = InputRow::select(
        "WHERE run_id = ?1 AND state = 'pending' ORDER BY CASE kind WHEN 'summary' THEN 0 ELSE 1 END, seq",
    );
    tx.all(&sql, params![run_id])
}

/// True if something waits for a run.
pub fn waits_for_run(tx: &mut Tx<'_>, run_id: RunId) -> Result<bool, StoreError> {
    tx.exists("SELECT 1 FROM input WHERE run_id = ?1 AND state = 'pending'", params![run_id])
}

/// True if something was said that takes the place of what a run does.
pub fn has_interrupts(tx: &mut Tx<'_>, run_id: RunId) -> Result<bool, StoreError> {
    tx.exists(
        "SELECT 1 FROM input WHERE run_id = ?1 AND state = 'pending' AND outcome = 'interrupted'",
        params![run_id],
    )
}

/// An attempt takes what waits for its run: nobody can take it back from now on.
pub fn take(tx: &mut Tx<'_>, run_id: RunId, epoch: u64) -> Result<(), StoreError> {
    tx.execute_fenced(
        "UPDATE input SET claimed_epoch = ?2, updated = ?3 WHERE run_id = ?1 AND state = 'pending'",
        params![run_id, epoch, tx.now()],
    )
    .map(drop)
}

/// A run begins with what waits for it.
pub fn begin_with(tx: &mut Tx<'_>, run_id: RunId) -> Result<(), StoreError> {
    tx.execute_fenced(
        "UPDATE input SET state = 'claimed', updated = ?2 WHERE run_id = ?1 AND state = 'pending'",
        params![run_id, tx.now()],
    )
    .map(drop)
}

/// What a run began with, in order.
pub fn first_of_run(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<InputRow>, StoreError> {
    let sql = InputRow::select(
        "WHERE run_id = ?1 AND claimed_epoch IS NULL AND state IN ('claimed', 'consumed')
         ORDER BY CASE kind WHEN 'summary' THEN 0 ELSE 1 END, seq",
    );
    tx.all(&sql, params![run_id])
}

/// What was said to a run, before its start and after, in order.
pub fn of_run(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<InputRow>, StoreError> {
    tx.all(&InputRow::select("WHERE run_id = ?1 ORDER BY seq"), params![run_id])
}

/// What a run that ends has not answered, in order: what it read and what it did not even read.
pub fn unanswered(tx: &mut Tx<'_>, run_id: RunId) -> Result<Vec<InputRow>, StoreError> {
    let sql = InputRow::select(
        "WHERE run_id = ?1 AND (state = 'pending' OR (state = 'claimed' AND claimed_epoch IS NOT NULL)) ORDER BY seq",
    );
    tx.all(&sql, params![run_id])
}

/// A run has ended: what it began with is settled with it.
pub fn settle_first(tx: &mut Tx<'_>, run_id: RunId) -> Result<(), StoreError> {
    tx.execute_fenced(
        "UPDATE input SET state = 'consumed', updated = ?2
          WHERE run_id = ?1 AND state = 'claimed' AND claimed_epoch IS NULL",
        params![run_id, tx.now()],
    )
    .map(drop)
}

/// Moves an input to another state. Its task must be locked.
pub fn set_state(tx: &mut Tx<'_>, id: InputId, state: &str) -> Result<(), StoreError> {
    let sql = "UPDATE input SET state = ?2, updated = ?3 WHERE id = ?1";
    tx.execute(sql, params![id, state, tx.now()]).map(drop)
}

/// Lets an input wait again that an ended run left unanswered. Its task must be locked.
pub fn requeue(tx: &mut Tx<'_>, id: InputId, outcome: &str) -> Result<(), StoreError> {
    let sql = "UPDATE input SET state = 'pending', outcome = ?2, claimed_epoch = NULL, updated = ?3 WHERE id = ?1";
    tx.execute(sql, params![id, outcome, tx.now()]).map(drop)
}

/// Lets an input stand for another message. Its task must be locked.
pub fn set_message(tx: &mut Tx<'_>, id: InputId, message: MessageId) -> Result<(), StoreError> {
    let sql = "UPDATE input SET message_id = ?2, updated = ?3 WHERE id = ?1";
    tx.execute(sql, params![id, message, tx.now()]).map(drop)
}

/// Sets the kind of an input. Its task must be locked.
pub fn set_kind(tx: &mut Tx<'_>, id: InputId, kind: &str) -> Result<(), StoreError> {
    tx.execute("UPDATE input SET kind = ?2 WHERE id = ?1", params![id, kind]).map(drop)
}

/// Gives an input to a run. Its task must be locked.
pub fn assign(tx: &mut Tx<'_>, id: InputId, run: RunId) -> Result<(), StoreError> {
    let sql = "UPDATE input SET run_id = ?2, updated = ?3 WHERE id = ?1";
    tx.execute(sql, params![id, run, tx.now()]).map(drop)
}
