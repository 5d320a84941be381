//! Messages that replace the current work of a run: `interrupt` keeps what the run has done, `rollback` removes it.

use provost_core::InputId;
use provost_core::durable::{DurableEvent, InterruptRequested, Interrupted, RollbackRequested};
use provost_core::lifecycle::{
    InputOutcome, InputTransition, RunPhase, RunTransition, TaskTransition,
};
use provost_core::recovery::OutcomeCode;
use provost_store::table::work::run::{self, RunRow};
use provost_store::{Locked, Tx, Wakeup};

use super::withdraw::{discard_inputs, removable_inputs};
use super::{InputReceipt, has_begun};
use crate::error::EngineError;
use crate::input::follow_up;
use crate::input::route::{RoutedInput, append_if_live};
use crate::run::lifecycle::{transition_run, try_transition_task};
use crate::run::{cancel, event};
use crate::submit::lock_task;
use crate::submit::queue;
use crate::{approval, child};

/// Interrupts a running run: it stops, and continues with the message after its effects have settled.
pub(super) fn interrupt(
    tx: &mut Tx<'_>,
    routed: &mut RoutedInput<'_>,
    active: Locked<RunRow>,
) -> Result<InputReceipt, EngineError> {
    let outcome = InputOutcome::Interrupted;
    if active.cancel_requested.is_some() {
        // The run is being cancelled with its pending messages, so the message starts the next run.
        let follow_up_context =
            follow_up::follow_up_context(tx, &routed.task, routed.message.command.policy.as_ref())?;
        supersede(tx, routed, &active)?;
        return crate::input::route::queue_as_follow_up(tx, routed, &follow_up_context, outcome);
    }
    let superseded = supersede(tx, routed, &active)?;
    let input = routed.insert(tx, outcome, Some(active.id))?;
    // Superseding messages may have changed the row.
    let mut row = lock_current(tx, active)?;
    let request = InterruptRequested { input: input.id, superseded };
    if !has_begun(&row) {
        start_now(tx, &mut row, request)?;
    } else if row.phase == RunPhase::Leased {
        event::append_event(tx, &mut row, DurableEvent::InterruptRequested(request))?;
        row.interrupt_requested = Some(tx.now());
        row.save(tx)?;
        tx.wake(Wakeup::Cancel(row.id));
    } else {
        event::append_event(tx, &mut row, DurableEvent::InterruptRequested(request))?;
        restart_with_input(tx, &mut row)?;
        let _applied = try_transition_task(tx, &mut routed.task, TaskTransition::Requeued)?;
    }
    Ok(routed.receipt(&input, row.id, outcome))
}

/// Ends the run, removes its messages from the session, and starts a new run with the message.
pub(super) fn roll_back(
    tx: &mut Tx<'_>,
    routed: &mut RoutedInput<'_>,
    active: Locked<RunRow>,
) -> Result<InputReceipt, EngineError> {
    let follow_up_context =
        follow_up::follow_up_context(tx, &routed.task, routed.message.command.policy.as_ref())?;
    if !has_begun(&active) {
        // The run has added nothing to the session yet.
        return interrupt(tx, routed, active);
    }
    let outcome = InputOutcome::Interrupted;
    let superseded = supersede(tx, routed, &active)?;
    let receipt = crate::input::route::queue_as_follow_up(tx, routed, &follow_up_context, outcome)?;
    let InputReceipt { input, run, .. } = receipt;
    let request = RollbackRequested { input, run, superseded };
    append_if_live(tx, active.id, DurableEvent::RollbackRequested(request))?;
    let mut row = lock_current(tx, active)?;
    // The code marks the messages of the run for removal from the session.
    let code = OutcomeCode::CancelledByInterrupt;
    row.cancel_code = Some(code);
    row.save(tx)?;
    cancel::cancel(tx, row, code)?;
    Ok(receipt)
}

/// Reads the current row of a run and locks it.
fn lock_current(tx: &mut Tx<'_>, run: Locked<RunRow>) -> Result<Locked<RunRow>, EngineError> {
    Ok(run::lock(tx, run.id)?.unwrap_or(run))
}

/// Marks the older unread messages of the task as superseded, and returns their ids. Runs that they alone would have
/// started end.
fn supersede(
    tx: &mut Tx<'_>,
    routed: &mut RoutedInput<'_>,
    active: &RunRow,
) -> Result<Vec<InputId>, EngineError> {
    let rows = removable_inputs(tx, routed.task.id)?;
    let ids = rows.iter().map(|row| row.id).collect();
    discard_inputs(tx, rows, InputTransition::Superseded, Some(active.id))?;
    // Runs without inputs have ended, which may have changed the task.
    let namespace = routed.task.namespace()?;
    routed.task = lock_task(tx, &namespace, routed.task.id)?;
    Ok(ids)
}

/// Starts a run that has not begun without further delay, and records the request.
fn start_now(
    tx: &mut Tx<'_>,
    row: &mut Locked<RunRow>,
    request: InterruptRequested,
) -> Result<(), EngineError> {
    let interrupted = Interrupted::BeforeStart(request);
    event::append_event(tx, row, DurableEvent::Interrupted(interrupted))?;
    let now = tx.now();
    queue::schedule(tx, row, now)?;
    row.save(tx)?;
    queue::refresh(tx, &row.namespace, &row.session_id)
}

/// Restarts a parked or queued run with the interrupting message. Its pending approvals and children are cancelled.
fn restart_with_input(tx: &mut Tx<'_>, row: &mut Locked<RunRow>) -> Result<(), EngineError> {
    approval::cancel_pending(tx, row)?;
    // The end of a team member appends an event to the stored row.
    row.save(tx)?;
    child::cancel_children(tx, row)?;
    if let Some(stored) = run::lock(tx, row.id)? {
        *row = stored;
    }
    transition_run(row, RunTransition::Interrupted)?;
    // The run no longer waits for an operator.
    row.paused = None;
    row.outcome_code = None;
    row.detail = None;
    let now = tx.now();
    queue::schedule(tx, row, now)?;
    let interrupted = Interrupted::Attempt { attempt: row.attempt_no };
    event::append_event(tx, row, DurableEvent::Interrupted(interrupted))?;
    row.save(tx)?;
    queue::refresh(tx, &row.namespace, &row.session_id)
}
