//! Applies the state machines of [`provost_core::lifecycle`] to rows.

use provost_core::lifecycle::{RunState, RunTransition, TaskState, TaskTransition};
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

/// Applies a transition to a task and saves it. A transition that the state does not permit is ignored.
pub(crate) fn transition_task(
    tx: &mut Tx<'_>,
    task: &mut Locked<TaskRow>,
    event: TaskTransition,
) -> Result<(), EngineError> {
    if let Ok(next) = task.state.apply(event) {
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
    task.state = state;
    task.version += 1;
    task.updated = tx.now();
    task.ended = state.is_terminal().then(|| tx.now());
    task.save(tx)?;
    Ok(())
}
