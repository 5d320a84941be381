//! Removal of pending inputs: withdrawn by their sender, or superseded.

use provost_core::id::name::Namespace;
use provost_core::lifecycle::{
    InputKind, InputOutcome, InputState, InputTransition, InvalidTransition, RequestError, RunPhase,
};
use provost_core::recovery::OutcomeCode;
use provost_core::{InputId, RunId, TaskId};
use provost_store::Tx;
use provost_store::table::work::input::{self, InputRow};
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::task;

use super::has_begun;
use crate::error::EngineError;
use crate::input::Inputs;
use crate::run::end::{self, RunEnd};
use crate::run::lifecycle::transition_input;

impl Inputs<'_> {
    /// Withdraws an unread message. Fails if an attempt has received it. In that case cancel the run.
    pub async fn withdraw(
        self,
        namespace: &Namespace,
        id: InputId,
    ) -> Result<InputState, EngineError> {
        let namespace = namespace.clone();
        self.engine.inner.store.write(move |tx| withdraw(tx, &namespace, id)).await
    }
}

/// Withdraws an unread message inside a transaction. A run that has not begun and has no other message ends.
pub(crate) fn withdraw(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: InputId,
) -> Result<InputState, EngineError> {
    let row = input::find(tx, namespace.as_str(), id)?;
    let row = row.ok_or_else(|| EngineError::not_found("input", id))?;
    task::lock(tx, row.task_id)?;
    let row = input::get(tx, id)?.ok_or_else(|| EngineError::not_found("input", id))?;
    let state: InputState = row.state;
    if state == InputState::Cancelled {
        return Ok(state);
    }
    if is_claimed(tx, &row)? {
        // An interrupting message has had its effect, and a claimed message is about to be recorded.
        return Err(RequestError::from(InvalidTransition {
            machine: "message",
            from: InputState::Claimed.as_str(),
            transition: InputTransition::Cancelled.as_str(),
            terminal: false,
        })
        .into());
    }
    state.apply(InputTransition::Cancelled)?;
    discard_inputs(tx, vec![row], InputTransition::Cancelled, None)?;
    Ok(InputState::Cancelled)
}

/// Returns true if an attempt has received a pending message without having recorded it.
fn is_claimed(tx: &mut Tx<'_>, row: &InputRow) -> Result<bool, EngineError> {
    let Some(run) = row.run_id.map(|id| run::get(tx, id)).transpose()?.flatten() else {
        return Ok(false);
    };
    let interrupts = row.outcome == InputOutcome::Interrupted;
    let waits = row.state == InputState::Pending && has_begun(&run);
    Ok(waits && (interrupts || is_claimed_by(row, &run)))
}

/// Returns true if the current attempt of the run has claimed the input.
fn is_claimed_by(row: &InputRow, run: &RunRow) -> bool {
    run.phase == RunPhase::Leased && row.claimed_epoch == Some(run.epoch)
}

/// Returns the inputs of a task that can still be removed, in order. Inputs that an attempt has received cannot be
/// removed.
pub(super) fn removable_inputs(
    tx: &mut Tx<'_>,
    task: TaskId,
) -> Result<Vec<InputRow>, EngineError> {
    let mut rows = input::pending(tx, task, u64::from(u32::MAX))?;
    for run in run::live_of_task(tx, task)? {
        rows.retain(|row| row.run_id != Some(run.id) || !is_claimed_by(row, &run));
    }
    Ok(rows)
}

/// Marks an input as superseded. A run that has not begun and has no other input ends.
pub(crate) fn supersede_input(tx: &mut Tx<'_>, row: InputRow) -> Result<(), EngineError> {
    discard_inputs(tx, vec![row], InputTransition::Superseded, None).map(drop)
}

/// Withdraws all pending inputs of a task.
pub(crate) fn withdraw_all(tx: &mut Tx<'_>, task: TaskId) -> Result<(), EngineError> {
    let rows = removable_inputs(tx, task)?;
    discard_inputs(tx, rows, InputTransition::Cancelled, None).map(drop)
}

/// Moves inputs to a terminal state, so that no run reads them. A run that has not begun and has no other input ends,
/// except for the run `except`. Returns the summaries of dropped messages that were discarded with such runs.
pub(super) fn discard_inputs(
    tx: &mut Tx<'_>,
    rows: Vec<InputRow>,
    event: InputTransition,
    except: Option<RunId>,
) -> Result<Vec<InputRow>, EngineError> {
    let mut runs: Vec<RunId> = Vec::new();
    for row in rows {
        transition_input(tx, &row, event)?;
        if let Some(run) = row.run_id
            && !runs.contains(&run)
        {
            runs.push(run);
        }
    }
    let mut summaries = Vec::new();
    for id in runs {
        let pending = input::pending_of_run(tx, id)?;
        if pending.iter().any(|row| row.kind != InputKind::Summary) {
            continue;
        }
        let Some(mut row) = run::lock(tx, id)? else { continue };
        let has_started = has_begun(&row) || row.state()?.is_terminal();
        if !has_started || except == Some(id) {
            for summary in pending {
                transition_input(tx, &summary, event)?;
                summaries.push(summary);
            }
        }
        if has_started || except == Some(id) {
            continue;
        }
        let (code, detail) = match event {
            InputTransition::Cancelled => {
                (OutcomeCode::CancelledByUser, "its message was withdrawn")
            }
            _ => (OutcomeCode::CancelledByInterrupt, "a newer message superseded its message"),
        };
        end::end_run(tx, &mut row, &RunEnd::with_code(code, detail))?;
    }
    Ok(summaries)
}
