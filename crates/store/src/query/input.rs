//! What can be said to a run now, and what waits to be read: read off its rows, never stored.

use std::sync::Arc;

use crate::table::governance::approval;
use crate::table::work::attempt;
use crate::table::work::input::{self, InputRow};
use crate::table::work::run::{self, RunRow};
use crate::table::work::stored_message;
use crate::{Store, Tx};
use provost_core::command::{InputProvenance, InputTarget};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{InputOutcome, InputState, InteractionState};
use provost_core::scheduling::InputMode;
use provost_core::{ApprovalId, ExecutionId, InputId, Message, RunId, TaskId, Timestamp};

use crate::query::QueryError;
use crate::query::parse;
use crate::query::task::find_task;
use serde::Deserialize;

/// A message that nobody has read yet.
#[derive(Debug, Clone, PartialEq)]
pub struct PendingInput {
    /// The message.
    pub id: InputId,
    /// The task it is for.
    pub task: TaskId,
    /// The run that will read it.
    pub run: Option<RunId>,
    /// How it waits.
    pub mode: InputMode,
    /// What its sender was told.
    pub outcome: InputOutcome,
    /// What it says.
    pub message: Arc<Message>,
    /// Where it came from.
    pub provenance: InputProvenance,
    /// When it came.
    pub created: Timestamp,
}

/// A run as somebody sees it who could say something to it.
#[derive(Debug, Clone, PartialEq)]
pub struct RunInteraction {
    /// The run.
    pub run: RunId,
    /// What it does.
    pub state: InteractionState,
    /// Where it is being carried out at this moment.
    pub execution: Option<ExecutionId>,
    /// The questions that it has asked and nobody has answered.
    pub approvals: Vec<ApprovalId>,
    /// What waits to be read by it.
    pub pending: Vec<PendingInput>,
}

/// How far a run is from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePosition {
    /// Runs that come before it in its session.
    pub ahead_in_session: u64,
    /// Runs that come before it in its class.
    pub ahead_in_class: u64,
    /// It does not start before this moment.
    pub not_before: Timestamp,
}

/// What can be said to a run now.
pub async fn interaction(
    store: &Store,
    namespace: &Namespace,
    id: RunId,
) -> Result<RunInteraction, QueryError> {
    let namespace = namespace.clone();
    store.read(move |tx| interaction_of(tx, &namespace, id)).await
}

/// The messages that nobody has read yet, in the order in which they came: of a task, or of one run.
pub async fn pending(
    store: &Store,
    namespace: &Namespace,
    target: impl Into<InputTarget>,
) -> Result<Vec<PendingInput>, QueryError> {
    let (namespace, target) = (namespace.clone(), target.into());
    store.read(move |tx| pending_of(tx, &namespace, target)).await
}

/// How far a run is from its start; nothing if it has begun.
pub async fn queue_position(
    store: &Store,
    namespace: &Namespace,
    id: RunId,
) -> Result<Option<QueuePosition>, QueryError> {
    let namespace = namespace.clone();
    store.read(move |tx| position(tx, &namespace, id)).await
}

/// The part of a stored origin that a reader sees.
#[derive(Default, Deserialize)]
struct Origin {
    #[serde(default)]
    provenance: InputProvenance,
}

fn find_run(tx: &mut Tx<'_>, namespace: &Namespace, id: RunId) -> Result<RunRow, QueryError> {
    run::find(tx, namespace.as_str(), id)?.ok_or_else(|| QueryError::not_found("run", id))
}

fn interaction_of(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: RunId,
) -> Result<RunInteraction, QueryError> {
    let row = find_run(tx, namespace, id)?;
    let waiting = input::waiting_for_run(tx, id)?;
    let pending = read_all(tx, waiting)?;
    let state = InteractionState::of(row.state()?, pending.len());
    let execution = match row.lease_owner {
        Some(_) => attempt::get(tx, id, row.attempt_no)?.map(|attempt| attempt.execution_id),
        None => None,
    };
    let approvals = approval::open_of_run(tx, id)?.into_iter().map(|row| row.id).collect();
    Ok(RunInteraction { run: id, state, execution, approvals, pending })
}

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
            input::waiting_for_run(tx, row.id)?
        }
    };
    read_all(tx, rows)
}

fn read_all(tx: &mut Tx<'_>, rows: Vec<InputRow>) -> Result<Vec<PendingInput>, QueryError> {
    let mut inputs = Vec::with_capacity(rows.len());
    for row in rows {
        debug_assert_eq!(row.state, InputState::Pending.as_str());
        let Origin { provenance } = serde_json::from_str(&row.provenance)?;
        inputs.push(PendingInput {
            id: row.id,
            task: row.task_id,
            run: row.run_id,
            mode: parse(&row.mode)?,
            outcome: parse(&row.outcome)?,
            message: stored_message::get(tx, row.message_id)?,
            provenance,
            created: row.created,
        });
    }
    Ok(inputs)
}

fn position(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: RunId,
) -> Result<Option<QueuePosition>, QueryError> {
    let row = find_run(tx, namespace, id)?;
    if row.phase != "queued" {
        return Ok(None);
    }
    Ok(Some(QueuePosition {
        ahead_in_session: run::ahead_in_session(tx, &row)?,
        ahead_in_class: run::ahead_in_class(tx, &row)?,
        not_before: row.not_before,
    }))
}
