//! Rows as the machines of [`provost_core::lifecycle`] see them.

use std::str::FromStr;

use provost_core::execution_policy::ExecPolicy;
use provost_core::lifecycle::{RunEvent, RunState, TaskEvent, TaskState};
use provost_core::recovery::OutcomeCode;
use provost_store::table::work::run::RunRow;
use provost_store::table::work::task::TaskRow;
use provost_store::{Locked, Tx};

use crate::error::EngineError;

/// A stored word; one that is not known was written by a newer program or by hand.
pub(crate) fn word<T: FromStr>(text: &str) -> Result<T, EngineError>
where
    T::Err: std::fmt::Display,
{
    Ok(provost_store::query::parse(text)?)
}

/// Where a run stands.
pub(crate) fn run_state(run: &RunRow) -> Result<RunState, EngineError> {
    Ok(run.state()?)
}

/// Moves a run by an event.
pub(crate) fn move_run(run: &mut RunRow, event: RunEvent) -> Result<RunState, EngineError> {
    let next = run_state(run)?.next(event)?;
    run.status = next.status().as_str().to_owned();
    run.phase = next.phase().as_str().to_owned();
    run.parked_for = next.parked_for().map(|why| why.as_str().to_owned());
    run.holds_session = next.holds_session();
    Ok(next)
}

/// Moves a task by an event; one that does not take it stays as it is.
pub(crate) fn move_task(
    tx: &mut Tx<'_>,
    task: &mut Locked<TaskRow>,
    event: TaskEvent,
) -> Result<(), EngineError> {
    let state: TaskState = word(&task.state)?;
    if let Ok(next) = state.next(event) {
        set_task_state(tx, task, next)?;
    }
    Ok(())
}

/// Puts a task into a state.
pub(crate) fn set_task_state(
    tx: &mut Tx<'_>,
    task: &mut Locked<TaskRow>,
    state: TaskState,
) -> Result<(), EngineError> {
    task.state = state.as_str().to_owned();
    task.version += 1;
    task.updated = tx.now();
    task.ended = state.is_terminal().then(|| tx.now());
    task.save(tx)?;
    Ok(())
}

/// The policy a run was started with.
pub(crate) fn policy(run: &RunRow) -> Result<ExecPolicy, EngineError> {
    Ok(run.execution_policy()?)
}

/// How a run ended, if a code says so.
pub(crate) fn outcome(run: &RunRow) -> Result<Option<OutcomeCode>, EngineError> {
    Ok(run.outcome()?)
}
