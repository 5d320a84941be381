//! Interaction state of runs and their pending inputs, derived from the stored rows.

use std::sync::Arc;

use crate::table::governance::approval;
use crate::table::work::attempt;
use crate::table::work::input::{self, InputRow};
use crate::table::work::run::{self, RunRow};
use crate::table::work::stored_message;
use crate::{Store, Tx};
use provost_core::command::{InputProvenance, InputTarget};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{InputOutcome, InputState, InteractionState, RunPhase};
use provost_core::scheduling::InputMode;
use provost_core::{ApprovalId, ExecutionId, InputId, Message, RunId, TaskId, Timestamp};

use crate::query::QueryError;
use crate::query::task::find_task;
use serde::Deserialize;

/// An input that no run has consumed.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingInput {
    /// Id of the input.
    pub id: InputId,
    /// The task that receives it.
    pub task: TaskId,
    /// The run that it is assigned to.
    pub run: Option<RunId>,
    /// Queue mode.
    pub mode: InputMode,
    /// Outcome that was returned to the sender.
    pub outcome: InputOutcome,
    /// The message.
    pub message: Arc<Message>,
    /// Sender and origin.
    pub provenance: InputProvenance,
    /// Time of creation.
    pub created: Timestamp,
}

/// State of a run for clients that can send inputs to it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInteraction {
    /// The run.
    pub run: RunId,
    /// Interaction state.
    pub state: InteractionState,
    /// The current execution; `None` if no worker executes the run.
    pub execution: Option<ExecutionId>,
    /// Pending approvals.
    pub approvals: Vec<ApprovalId>,
    /// Pending inputs.
    pub pending: Vec<PendingInput>,
}

/// Position of a queued run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePosition {
    /// Number of runs before it in its session.
    pub ahead_in_session: u64,
    /// Number of runs before it in its execution class.
    pub ahead_in_class: u64,
    /// Earliest time of the start.
    pub not_before: Timestamp,
}

/// Returns the interaction state of a run: its pending inputs, approvals and attempt. Fails if the namespace has none
/// with this id.
pub async fn interaction(
    store: &Store,
    namespace: &Namespace,
    id: RunId,
) -> Result<RunInteraction, QueryError> {
    let namespace = namespace.clone();
    store.read(move |tx| interaction_of(tx, &namespace, id)).await
}

/// Returns the pending inputs of a task or a run, in order.
pub async fn pending(
    store: &Store,
    namespace: &Namespace,
    target: impl Into<InputTarget>,
) -> Result<Vec<PendingInput>, QueryError> {
    let (namespace, target) = (namespace.clone(), target.into());
    store.read(move |tx| pending_of(tx, &namespace, target)).await
}

/// Returns the run that an input is assigned to; `None` if the input does not exist or no run has it.
pub async fn run_of(
    store: &Store,
    namespace: &Namespace,
    id: InputId,
) -> Result<Option<RunId>, QueryError> {
    let namespace = namespace.clone();
    let read = store.read(move |tx| Ok::<_, QueryError>(input::find(tx, namespace.as_str(), id)?));
    Ok(read.await?.and_then(|row| row.run_id))
}

/// Returns the queue position of a run; `None` if it is not queued.
pub async fn queue_position(
    store: &Store,
    namespace: &Namespace,
    id: RunId,
) -> Result<Option<QueuePosition>, QueryError> {
    let namespace = namespace.clone();
    store.read(move |tx| position(tx, &namespace, id)).await
}

/// The public part of a stored origin.
#[derive(Default, Deserialize)]
struct Origin {
    #[serde(default)]
    provenance: InputProvenance,
}

/// Returns a run. Fails if the namespace has none with this id.
fn find_run(tx: &mut Tx<'_>, namespace: &Namespace, id: RunId) -> Result<RunRow, QueryError> {
    run::find(tx, namespace.as_str(), id)?.ok_or_else(|| QueryError::not_found("run", id))
}

/// Reads the interaction state of a run.
fn interaction_of(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: RunId,
) -> Result<RunInteraction, QueryError> {
    let row = find_run(tx, namespace, id)?;
    let waiting = input::pending_of_run(tx, id)?;
    let pending = read_all(tx, waiting)?;
    let state = InteractionState::of(row.state()?, pending.len());
    let execution = match row.lease_owner {
        Some(_) => attempt::get(tx, id, row.attempt_no)?.map(|attempt| attempt.execution_id),
        None => None,
    };
    let approvals = approval::open_of_run(tx, id)?.into_iter().map(|row| row.id).collect();
    Ok(RunInteraction { run: id, state, execution, approvals, pending })
}

/// Reads the pending inputs of a task or run, in order.
fn pending_of(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    target: InputTarget,
) -> Result<Vec<PendingInput>, QueryError> {
    let rows = match target {
        InputTarget::Task(id) => {
            let task = find_task(tx, namespace, id)?;
            input::pending(tx, task.id, u64::from(u32::MAX))?
        }
        InputTarget::Run(id) => {
            let row = find_run(tx, namespace, id)?;
            input::pending_of_run(tx, row.id)?
        }
    };
    read_all(tx, rows)
}

/// Loads the messages of pending inputs.
fn read_all(tx: &mut Tx<'_>, rows: Vec<InputRow>) -> Result<Vec<PendingInput>, QueryError> {
    let mut inputs = Vec::with_capacity(rows.len());
    for row in rows {
        debug_assert_eq!(row.state, InputState::Pending);
        let Origin { provenance } = serde_json::from_str(&row.provenance)?;
        inputs.push(PendingInput {
            id: row.id,
            task: row.task_id,
            run: row.run_id,
            mode: row.mode,
            outcome: row.outcome,
            message: stored_message::get(tx, row.message_id)?,
            provenance,
            created: row.created,
        });
    }
    Ok(inputs)
}

/// Reads the queue position of a run. `None` if the run is not queued.
fn position(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: RunId,
) -> Result<Option<QueuePosition>, QueryError> {
    let row = find_run(tx, namespace, id)?;
    if row.phase != RunPhase::Queued {
        return Ok(None);
    }
    Ok(Some(QueuePosition {
        ahead_in_session: run::ahead_in_session(tx, &row)?,
        ahead_in_class: run::ahead_in_class(tx, &row)?,
        not_before: row.not_before,
    }))
}
