//! Commands for tasks.

use provost_core::id::name::Namespace;
use provost_core::lifecycle::{
    InputOutcome, InputState, InvalidTransition, RequestError, TaskState, TaskTransition,
};
use provost_core::{InputId, RunId, TaskId};
use provost_store::Tx;
use provost_store::table::work::input::{self, InputRow};
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::task::TaskRow;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::input::follow_up::{self, FollowUpRun};
use crate::input::{has_begun, next_number};
use crate::run::lifecycle::set_task_state;
use crate::submit::lock_task;

/// Commands for tasks. See [`Engine::tasks`](crate::Engine::tasks).
#[derive(Clone, Copy)]
pub struct Tasks<'a> {
    pub(crate) engine: &'a Engine,
}

impl Tasks<'_> {
    /// Archives a task: it is not listed any more, and requests to its session create a new task. Only a task that has
    /// ended or waits for input can be archived.
    pub async fn archive(self, namespace: &Namespace, id: TaskId) -> Result<TaskRow, EngineError> {
        let namespace = namespace.clone();
        self.engine.inner.store.write(move |tx| archive(tx, &namespace, id)).await
    }

    /// Retries a task that failed or was dropped: a new run gets the messages of the last run again.
    pub async fn retry(self, namespace: &Namespace, id: TaskId) -> Result<RunId, EngineError> {
        let namespace = namespace.clone();
        self.engine.inner.store.write(move |tx| retry(tx, &namespace, id)).await
    }
}

/// Archives a task inside a transaction. Does nothing if it is archived. Fails unless it has ended or waits for a person.
fn archive(tx: &mut Tx<'_>, namespace: &Namespace, id: TaskId) -> Result<TaskRow, EngineError> {
    let mut task = lock_task(tx, namespace, id)?;
    if task.archived.is_some() {
        return Ok(task.into_row());
    }
    let state: TaskState = task.state;
    if !state.can_archive() {
        let from = state.as_str();
        let illegal =
            InvalidTransition { machine: "task", from, transition: "archived", terminal: false };
        return Err(RequestError::from(illegal).into());
    }
    task.archived = Some(tx.now());
    task.version += 1;
    task.updated = tx.now();
    task.save(tx)?;
    Ok(task.into_row())
}

/// Creates a run with copies of the last run's inputs, and reopens the task. Fails if the task has no message.
fn retry(tx: &mut Tx<'_>, namespace: &Namespace, id: TaskId) -> Result<RunId, EngineError> {
    let mut task = lock_task(tx, namespace, id)?;
    let next = task.state.apply(TaskTransition::Retried)?;
    let follow_up_context = follow_up::follow_up_context(tx, &task, None)?;
    let last = run::last_of_task(tx, task.id)?;
    let messages_of_run = match &last {
        Some(run) => messages_of_run(tx, run)?,
        None => Vec::new(),
    };
    if messages_of_run.is_empty() {
        let what = "the task has no message";
        return Err(RequestError::invalid("task", what, "send it a message").into());
    }
    let mut inputs = Vec::with_capacity(messages_of_run.len());
    for row in messages_of_run {
        let (id, seq): (InputId, _) = (tx.id(), next_number(tx, &task)?);
        let row = InputRow {
            id,
            run_id: None,
            seq,
            idem_key: id.to_string(),
            state: InputState::Pending,
            outcome: InputOutcome::Restarted,
            claimed_epoch: None,
            created: tx.now(),
            updated: tx.now(),
            ..row
        };
        row.insert(tx)?;
        inputs.push(row);
    }
    task.archived = None;
    task.drop_reason = None;
    set_task_state(tx, &mut task, next)?;
    let command = serde_json::from_str(&task.command)?;
    let start = FollowUpRun { id: tx.id(), not_before: tx.now(), command: &command, rank: None };
    follow_up::start(tx, &mut task, &follow_up_context, &start, &inputs)
}

/// Returns the inputs that a run received or would have started with, oldest first, without superseded ones.
fn messages_of_run(tx: &mut Tx<'_>, run: &RunRow) -> Result<Vec<InputRow>, EngineError> {
    let counts = |row: &InputRow| match row.state {
        InputState::Cancelled => !has_begun(run),
        InputState::Superseded => false,
        InputState::Pending | InputState::Claimed | InputState::Consumed => true,
    };
    Ok(input::of_run(tx, run.id)?.into_iter().filter(counts).collect())
}
