//! Messages that take the place of what is being done: beside it (interrupt) or as if it had never been (rollback).

use provost_core::InputId;
use provost_core::durable::{DurableEvent, InterruptRequested, Interrupted, RollbackRequested};
use provost_core::lifecycle::{InputOutcome, InputTransition, RunTransition, TaskTransition};
use provost_core::recovery::OutcomeCode;
use provost_store::table::work::run::{self, RunRow};
use provost_store::{Hint, Locked, Tx};

use super::withdraw::{remove, waiting};
use super::{InputReceipt, has_begun};
use crate::error::EngineError;
use crate::input::follow_up;
use crate::input::route::{Arrival, append_if_live};
use crate::run::lifecycle::{move_run, move_task};
use crate::run::{cancel, event};
use crate::submit::lock_task;
use crate::{approval, child, queue};

/// What is asked of a run that is at work: stop, and go on with the message once everything has settled.
pub(super) fn interrupt(
    tx: &mut Tx<'_>,
    arrival: &mut Arrival<'_>,
    active: Locked<RunRow>,
) -> Result<InputReceipt, EngineError> {
    let outcome = InputOutcome::Interrupted;
    if active.cancel_requested.is_some() {
        // It is being stopped for good, with what was said to it: this is for the next one.
        let footing =
            follow_up::footing(tx, &arrival.task, arrival.message.command.policy.as_ref())?;
        supersede(tx, arrival, &active)?;
        return crate::input::route::follow(tx, arrival, &footing, outcome);
    }
    let superseded = supersede(tx, arrival, &active)?;
    let input = arrival.insert(tx, outcome, Some(active.id))?;
    // What was superseded may have changed its row.
    let mut row = lock_again(tx, active)?;
    let request = InterruptRequested { input: input.id, superseded };
    if !has_begun(&row) {
        begin_now(tx, &mut row, request)?;
    } else if row.phase == "leased" {
        event::append_event(tx, &mut row, DurableEvent::InterruptRequested(request))?;
        row.interrupt_requested = Some(tx.now());
        row.save(tx)?;
        tx.hint(Hint::Cancel(row.id));
    } else {
        event::append_event(tx, &mut row, DurableEvent::InterruptRequested(request))?;
        begin_again(tx, &mut row)?;
        move_task(tx, &mut arrival.task, TaskTransition::Requeued)?;
    }
    Ok(arrival.receipt(&input, row.id, outcome))
}

/// The run ends, what it said leaves the session, and a new run begins with the message from the session as it was.
pub(super) fn roll_back(
    tx: &mut Tx<'_>,
    arrival: &mut Arrival<'_>,
    active: Locked<RunRow>,
) -> Result<InputReceipt, EngineError> {
    let footing = follow_up::footing(tx, &arrival.task, arrival.message.command.policy.as_ref())?;
    if !has_begun(&active) {
        // Nothing of it has been said yet.
        return interrupt(tx, arrival, active);
    }
    let outcome = InputOutcome::Interrupted;
    let superseded = supersede(tx, arrival, &active)?;
    let receipt = crate::input::route::follow(tx, arrival, &footing, outcome)?;
    let InputReceipt { input, run, .. } = receipt;
    let request = RollbackRequested { input, run, superseded };
    append_if_live(tx, active.id, DurableEvent::RollbackRequested(request))?;
    let mut row = lock_again(tx, active)?;
    // The code tells whoever ends the run that its words go with it.
    let code = OutcomeCode::CancelledByInterrupt;
    row.cancel_code = Some(code.as_str().to_owned());
    row.save(tx)?;
    cancel::cancel(tx, row, code)?;
    Ok(receipt)
}

/// The run as it is stored now.
fn lock_again(tx: &mut Tx<'_>, run: Locked<RunRow>) -> Result<Locked<RunRow>, EngineError> {
    Ok(run::lock(tx, run.id)?.unwrap_or(run))
}

/// Older messages that nobody has read give way to this one.
fn supersede(
    tx: &mut Tx<'_>,
    arrival: &mut Arrival<'_>,
    active: &RunRow,
) -> Result<Vec<InputId>, EngineError> {
    let waiting = waiting(tx, arrival.task.id)?;
    let ids = waiting.iter().map(|row| row.id).collect();
    remove(tx, waiting, InputTransition::Superseded, Some(active.id))?;
    // Runs that lost everything have ended, and with that the task may have moved.
    let namespace = crate::run::lifecycle::word(&arrival.task.namespace)?;
    arrival.task = lock_task(tx, &namespace, arrival.task.id)?;
    Ok(ids)
}

/// A run that nobody had begun starts with the message, without a further wait.
fn begin_now(
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

/// A run that no worker has goes on with what interrupted it; what it waited for does not matter any more.
fn begin_again(tx: &mut Tx<'_>, row: &mut Locked<RunRow>) -> Result<(), EngineError> {
    approval::close_open(tx, row)?;
    // A member of its team that ends is told of in its log, by the row as it is stored.
    row.save(tx)?;
    child::cancel_children(tx, row)?;
    if let Some(stored) = run::lock(tx, row.id)? {
        *row = stored;
    }
    move_run(row, RunTransition::Interrupted)?;
    // An operator who was to look at it need not any more.
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
