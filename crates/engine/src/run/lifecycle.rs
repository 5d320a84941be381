//! Applies the state machines of [`provost_core::lifecycle`] to rows.

use std::str::FromStr;

use provost_core::execution_policy::ExecutionPolicy;
use provost_core::lifecycle::{RunState, RunTransition, TaskState, TaskTransition};
use provost_core::recovery::OutcomeCode;
use provost_store::table::work::run::RunRow;
use provost_store::table::work::task::TaskRow;
use provost_store::{Locked, Tx};

use crate::error::EngineError;

/// Parses an enum value of a column. Fails for a value that a newer program or a manual change has written.
pub(crate) fn parse_column<T: FromStr>(text: &str) -> Result<T, EngineError>
where
    T::Err: std::fmt::Display,
{
    Ok(provost_store::query::parse(text)?)
}

/// Returns the state of a run.
pub(crate) fn run_state(run: &RunRow) -> Result<RunState, EngineError> {
    Ok(run.state()?)
}

/// Applies a transition to a run and returns the new state. Fails if the state does not permit it. The caller saves
/// the row.
pub(crate) fn transition_run(
    run: &mut RunRow,
    event: RunTransition,
) -> Result<RunState, EngineError> {
    let next = run_state(run)?.apply(event)?;
    run.status = next.status().as_str().to_owned();
    run.phase = next.phase().as_str().to_owned();
    run.parked_for = next.wait_reason().map(|why| why.as_str().to_owned());
    run.holds_session = next.holds_session();
    Ok(next)
}

/// Applies a transition to a task and saves it. A transition that the state does not permit is ignored.
pub(crate) fn transition_task(
    tx: &mut Tx<'_>,
    task: &mut Locked<TaskRow>,
    event: TaskTransition,
) -> Result<(), EngineError> {
    let state: TaskState = parse_column(&task.state)?;
    if let Ok(next) = state.apply(event) {
        set_task_state(tx, task, next)?;
    }
    Ok(())
}

/// Sets the state of a task and saves it.
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

/// Returns the execution policy with which a run was started.
pub(crate) fn policy(run: &RunRow) -> Result<ExecutionPolicy, EngineError> {
    Ok(run.execution_policy()?)
}

/// Returns the outcome code of a run, if it has one.
pub(crate) fn outcome(run: &RunRow) -> Result<Option<OutcomeCode>, EngineError> {
    Ok(run.outcome()?)
}
