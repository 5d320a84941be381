//! Applies the state machines of [`provost_core::lifecycle`] to rows.

use provost_core::lifecycle::{
    InputTransition, RunState, RunTransition, TaskState, TaskTransition,
};
use provost_store::table::work::input::{self, InputRow};
use provost_store::table::work::run::RunRow;
use provost_store::table::work::task::TaskRow;
use provost_store::{Locked, Tx};

use crate::error::EngineError;

/// Applies a transition to a run and returns the new state. Fails if the state does not permit it. The caller saves
/// the row.
pub(crate) fn transition_run(
    run: &mut RunRow,
    event: RunTransition,
) -> Result<RunState, EngineError> {
    let next = run.state()?.apply(event)?;
    run.status = next.status();
    run.phase = next.phase();
    run.parked_for = next.wait_reason();
    run.holds_session = next.holds_session();
    Ok(next)
}

/// Applies a transition to a task and saves it, unless a run of the task has already moved the task to a state that
/// does not permit the transition. Returns true if it was applied.
pub(crate) fn try_transition_task(
    tx: &mut Tx<'_>,
    task: &mut Locked<TaskRow>,
    event: TaskTransition,
) -> Result<bool, EngineError> {
    let Ok(next) = task.state.apply(event) else { return Ok(false) };
    set_task_state(tx, task, next)?;
    Ok(true)
}

/// Sets the state of a task and saves it.
pub(crate) fn set_task_state(
    tx: &mut Tx<'_>,
    task: &mut Locked<TaskRow>,
    state: TaskState,
) -> Result<(), EngineError> {
    task.state = state;
    task.version += 1;
    task.updated = tx.now();
    task.ended = state.is_terminal().then(|| tx.now());
    task.save(tx)?;
    Ok(())
}

/// Applies a transition to an input and saves its state. The caller must have locked its task.
pub(crate) fn transition_input(
    tx: &mut Tx<'_>,
    row: &InputRow,
    event: InputTransition,
) -> Result<(), EngineError> {
    let state = row.state.apply(event)?;
    Ok(input::set_state(tx, row.id, state)?)
}
