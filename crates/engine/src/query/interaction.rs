//! What can be said to a run now, and what waits to be read: read off its rows, never stored.

use std::sync::Arc;

use provost_core::command::InputProvenance;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{DeliveryOutcome, InputState, Interaction};
use provost_core::scheduling::{QueueMode, QueueOverride, QueueSettings};
use provost_core::{ApprovalId, ExecutionId, InputId, Message, RunId, TaskId, Timestamp};
use provost_store::Tx;
use provost_store::table::governance::approval;
use provost_store::table::work::input::{self, InputRow};
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::{attempt, session};

use crate::engine::Engine;
use crate::error::EngineError;
use crate::input::{InputTarget, Origin};
use crate::journal::message;
use crate::run::lifecycle::{run_state, word};
use crate::submit::find_task;

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
    pub mode: QueueMode,
    /// What its sender was told.
    pub outcome: DeliveryOutcome,
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
    pub state: Interaction,
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

impl Engine {
    /// What can be said to a run now.
    pub async fn interaction(
        &self,
        namespace: &Namespace,
        id: RunId,
    ) -> Result<RunInteraction, EngineError> {
        let namespace = namespace.clone();
        self.shared.store.read(move |tx| interaction(tx, &namespace, id)).await
    }

    /// The messages that nobody has read yet, in the order in which they came: of a task, or of one run.
    pub async fn pending_inputs(
        &self,
        namespace: &Namespace,
        target: impl Into<InputTarget>,
    ) -> Result<Vec<PendingInput>, EngineError> {
        let (namespace, target) = (namespace.clone(), target.into());
        self.shared.store.read(move |tx| pending(tx, &namespace, target)).await
    }

    /// How far a run is from its start; nothing if it has begun.
    pub async fn queue_position(
        &self,
        namespace: &Namespace,
        id: RunId,
    ) -> Result<Option<QueuePosition>, EngineError> {
        let namespace = namespace.clone();
        self.shared.store.read(move |tx| position(tx, &namespace, id)).await
    }

    /// Sets how messages wait in a session, as far as it differs from what its agent says.
    pub async fn set_session_queue(
        &self,
        namespace: &Namespace,
        id: &str,
        queue: QueueOverride,
    ) -> Result<(), EngineError> {
        QueueSettings::default().with(&[queue]).validate()?;
        let (namespace, id) = (namespace.to_string(), id.to_owned());
        let write = self.shared.store.write(move |tx| {
            let row = session::get(tx, &namespace, &id)?;
            let mut row = row.ok_or_else(|| EngineError::not_found("session", &id))?;
            let said = queue != QueueOverride::default();
            row.queue = said.then(|| serde_json::to_string(&queue)).transpose()?;
            row.updated = tx.now();
            row.update(tx)?;
            Ok::<_, EngineError>(())
        });
        write.await
    }
}

fn find_run(tx: &mut Tx<'_>, namespace: &Namespace, id: RunId) -> Result<RunRow, EngineError> {
    run::find(tx, namespace.as_str(), id)?.ok_or_else(|| EngineError::not_found("run", id))
}

fn interaction(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: RunId,
) -> Result<RunInteraction, EngineError> {
    let row = find_run(tx, namespace, id)?;
    let waiting = input::waiting_for_run(tx, id)?;
    let pending = read_all(tx, waiting)?;
    let state = Interaction::of(run_state(&row)?, pending.len());
    let execution = match row.lease_owner {
        Some(_) => attempt::get(tx, id, row.attempt_no)?.map(|attempt| attempt.execution_id),
        None => None,
    };
    let approvals = approval::open_of_run(tx, id)?.into_iter().map(|row| row.id).collect();
    Ok(RunInteraction { run: id, state, execution, approvals, pending })
}

fn pending(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    target: InputTarget,
) -> Result<Vec<PendingInput>, EngineError> {
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

fn read_all(tx: &mut Tx<'_>, rows: Vec<InputRow>) -> Result<Vec<PendingInput>, EngineError> {
    let mut inputs = Vec::with_capacity(rows.len());
    for row in rows {
        debug_assert_eq!(row.state, InputState::Pending.as_str());
        let provenance = Origin::of(&row)?.provenance;
        inputs.push(PendingInput {
            id: row.id,
            task: row.task_id,
            run: row.run_id,
            mode: word(&row.mode)?,
            outcome: word(&row.outcome)?,
            message: message::get(tx, row.message_id)?,
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
) -> Result<Option<QueuePosition>, EngineError> {
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
