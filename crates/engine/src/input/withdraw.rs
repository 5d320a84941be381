//! Messages that nobody reads any more: taken back, or given way to others.

use provost_core::id::name::Namespace;
use provost_core::lifecycle::{
    InputOutcome, InputState, InputTransition, InvalidTransition, RequestError,
};
use provost_core::recovery::OutcomeCode;
use provost_core::{InputId, RunId, TaskId};
use provost_store::Tx;
use provost_store::table::work::input::{self, InputRow};
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::task;

use super::{SUMMARY, has_begun};
use crate::error::EngineError;
use crate::input::Inputs;
use crate::run::end::{self, Ending};
use crate::run::lifecycle::{run_state, word};

impl Inputs<'_> {
    /// Takes a message back that nobody has read yet. What was read is not taken back: cancel the run that read it.
    pub async fn withdraw(
        self,
        namespace: &Namespace,
        id: InputId,
    ) -> Result<InputState, EngineError> {
        let namespace = namespace.clone();
        self.engine.inner.store.write(move |tx| withdraw(tx, &namespace, id)).await
    }
}

pub(crate) fn withdraw(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: InputId,
) -> Result<InputState, EngineError> {
    let row = input::find(tx, namespace.as_str(), id)?;
    let row = row.ok_or_else(|| EngineError::not_found("input", id))?;
    task::lock(tx, row.task_id)?;
    let row = input::get(tx, id)?.ok_or_else(|| EngineError::not_found("input", id))?;
    let state: InputState = word(&row.state)?;
    if state == InputState::Cancelled {
        return Ok(state);
    }
    if is_taken(tx, &row)? {
        // What interrupts has had its effect, and what an attempt has taken it is about to write down.
        return Err(RequestError::from(InvalidTransition {
            machine: "message",
            from: InputState::Claimed.as_str(),
            transition: InputTransition::Cancelled.as_str(),
            terminal: false,
        })
        .into());
    }
    state.apply(InputTransition::Cancelled)?;
    remove(tx, vec![row], InputTransition::Cancelled, None)?;
    Ok(InputState::Cancelled)
}

/// Is a waiting message in the hands of an attempt, though that has not written it down yet?
fn is_taken(tx: &mut Tx<'_>, row: &InputRow) -> Result<bool, EngineError> {
    let Some(run) = row.run_id.map(|id| run::get(tx, id)).transpose()?.flatten() else {
        return Ok(false);
    };
    let interrupts = row.outcome == InputOutcome::Interrupted.as_str();
    let waits = row.state == InputState::Pending.as_str() && has_begun(&run);
    Ok(waits && (interrupts || is_in_hand(row, &run)))
}

fn is_in_hand(row: &InputRow, run: &RunRow) -> bool {
    run.phase == "leased" && row.claimed_epoch == Some(run.epoch)
}

/// What waits for a task and can still give way, in order: what an attempt has in its hands cannot.
pub(super) fn waiting(tx: &mut Tx<'_>, task: TaskId) -> Result<Vec<InputRow>, EngineError> {
    let mut waiting = input::pending(tx, task, u64::from(u32::MAX))?;
    for run in run::live_of_task(tx, task)? {
        waiting.retain(|row| row.run_id != Some(run.id) || !is_in_hand(row, &run));
    }
    Ok(waiting)
}

/// Takes back a message that something else has made needless.
pub(crate) fn retract(tx: &mut Tx<'_>, row: InputRow) -> Result<(), EngineError> {
    remove(tx, vec![row], InputTransition::Superseded, None).map(drop)
}

/// Takes back everything that waits for a task.
pub(crate) fn withdraw_all(tx: &mut Tx<'_>, task: TaskId) -> Result<(), EngineError> {
    let waiting = waiting(tx, task)?;
    remove(tx, waiting, InputTransition::Cancelled, None).map(drop)
}

/// Nobody reads these any more. A run that would have begun with them and has nothing else ends, except `spared`. Returns the
/// summaries that ended with such runs.
pub(super) fn remove(
    tx: &mut Tx<'_>,
    rows: Vec<InputRow>,
    event: InputTransition,
    spared: Option<RunId>,
) -> Result<Vec<InputRow>, EngineError> {
    let mut runs: Vec<RunId> = Vec::new();
    for row in rows {
        leave(tx, &row, event)?;
        if let Some(run) = row.run_id
            && !runs.contains(&run)
        {
            runs.push(run);
        }
    }
    let mut orphaned = Vec::new();
    for id in runs {
        let waiting = input::waiting_for_run(tx, id)?;
        if waiting.iter().any(|row| row.kind != SUMMARY) {
            continue;
        }
        let Some(mut row) = run::lock(tx, id)? else { continue };
        let begun = has_begun(&row) || run_state(&row)?.is_terminal();
        if !begun || spared == Some(id) {
            for summary in waiting {
                leave(tx, &summary, event)?;
                orphaned.push(summary);
            }
        }
        if begun || spared == Some(id) {
            continue;
        }
        let (code, detail) = match event {
            InputTransition::Cancelled => {
                (OutcomeCode::CancelledByUser, "its message was taken back")
            }
            _ => (OutcomeCode::CancelledByInterrupt, "its message gave way to a newer one"),
        };
        end::end_run(tx, &mut row, &Ending::because(code, detail))?;
    }
    Ok(orphaned)
}

fn leave(tx: &mut Tx<'_>, row: &InputRow, event: InputTransition) -> Result<(), EngineError> {
    let state = word::<InputState>(&row.state)?.apply(event)?;
    Ok(input::set_state(tx, row.id, state.as_str())?)
}
