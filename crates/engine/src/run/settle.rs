//! Settlement of an attempt: the run ends, is parked, or is requeued.

use std::sync::Arc;
use std::time::Duration;

use provost_core::durable::{
    DurableEvent, EndError, HandedOver, Interrupted, Parked, RetryScheduled,
};
use provost_core::lifecycle::{RunTransition, TaskTransition, WaitReason};
use provost_core::recovery::{OutcomeCode, RetryClass};
use provost_failpoint::failpoint;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::{journal, task};
use provost_store::{Locked, Tx};

use crate::approval::{self, Asking};
use crate::attempt::outcome::AttemptOutcome;
use crate::error::EngineError;
use crate::journal::transaction::fenced_error;
use crate::run::end::{self, Ending};
use crate::run::event;
use crate::run::lifecycle::{move_run, move_task, policy, word};
use crate::worker::lease::Lease;
use crate::{budget, child, queue};

/// Delay before a run continues after the database rejected its writes.
const UNWRITTEN_DELAY: Duration = Duration::from_secs(1);

/// Parameters of a settlement besides the rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Random value in `0.0..=1.0` that spreads retries.
    pub(crate) chance: f64,
    /// Settings for new approvals.
    pub(crate) asking: Asking,
    /// Step that must be committed before the settlement, or 0.
    pub(crate) after: u64,
    /// Number of the first in-flight step; 0 if unknown.
    pub(crate) open_from: u64,
}

/// Locks the run of an attempt. Returns [`Fenced`](provost_core::lifecycle::RequestError::Fenced) if the attempt does
/// not lease the run any more.
pub(crate) fn held(tx: &mut Tx<'_>, lease: &Lease) -> Result<Locked<RunRow>, EngineError> {
    let row = run::lock(tx, lease.run)?.ok_or_else(|| EngineError::not_found("run", lease.run))?;
    if row.epoch != lease.epoch || row.phase != "leased" {
        return Err(fenced_error(tx, lease)?);
    }
    Ok(row)
}

/// Result of settling an attempt.
pub(crate) enum Settled {
    /// The outcome is stored.
    Done,
    /// Nothing is stored, because an earlier write of the attempt was lost.
    WriteLost,
}

/// Settles an attempt.
pub(crate) fn settle(
    tx: &mut Tx<'_>,
    lease: &Lease,
    verdict: &AttemptOutcome,
    terms: Terms,
) -> Result<Settled, EngineError> {
    let mut row = held(tx, lease)?;
    if terms.after != 0 && !journal::is_committed(tx, lease.run, terms.after)? {
        return Ok(Settled::WriteLost);
    }
    row.open_from = row.open_from.max(terms.open_from);
    let settled = settle_held(tx, &mut row, verdict, terms);
    failpoint!("settle.before_commit");
    settled?;
    Ok(Settled::Done)
}

fn settle_held(
    tx: &mut Tx<'_>,
    row: &mut Locked<RunRow>,
    verdict: &AttemptOutcome,
    terms: Terms,
) -> Result<(), EngineError> {
    if let AttemptOutcome::Completed(answer) = verdict {
        // The run completed before the cancellation reached it.
        return end::end_run(tx, row, &Ending::ok(Arc::clone(answer)));
    }
    if row.cancel_requested.is_some() {
        let ending = cancelled(row)?;
        return end::end_run(tx, row, &ending);
    }
    if row.interrupt_requested.is_some() {
        return begin_again(tx, row);
    }
    match verdict {
        AttemptOutcome::Completed(answer) => end::end_run(tx, row, &Ending::ok(Arc::clone(answer))),
        AttemptOutcome::NeedsApproval(requests) => approval::park(tx, row, requests, terms.asking),
        AttemptOutcome::Cancelled => {
            let ending = cancelled(row)?;
            end::end_run(tx, row, &ending)
        }
        AttemptOutcome::BudgetExceeded(detail) => {
            approval::ask_for_money(tx, row, detail, terms.asking)
        }
        AttemptOutcome::Drained => go_back(tx, row, "its worker stops", Duration::ZERO),
        AttemptOutcome::NotPersisted(detail) => go_back(tx, row, detail, UNWRITTEN_DELAY),
        AttemptOutcome::Failed { code, detail, error, retry_after } => {
            let error = error.as_ref();
            let failure = Failure { code: *code, detail, error, retry_after: *retry_after };
            fail(tx, row, &failure, terms.chance)
        }
    }
}

/// Returns the end of a cancelled run, with the code of the cancellation request.
pub(crate) fn cancelled(row: &RunRow) -> Result<Ending, EngineError> {
    let code = row.cancel_code.as_deref().map(word).transpose()?;
    let code = code.unwrap_or(OutcomeCode::CancelledByUser);
    let detail = match code {
        OutcomeCode::DeadlineExceeded => "its time is over",
        _ => "it was cancelled",
    };
    Ok(Ending::because(code, detail))
}

/// Requeues an interrupted run. It continues with the newer message.
fn begin_again(tx: &mut Tx<'_>, row: &mut Locked<RunRow>) -> Result<(), EngineError> {
    let code = OutcomeCode::CancelledByInterrupt;
    end::release(tx, row, Some(code), Some("a newer message took its place"))?;
    journal::lose_open_steps(tx, row.id)?;
    child::cancel_children_of_calls(tx, row)?;
    move_run(row, RunTransition::Interrupted)?;
    row.interrupt_requested = None;
    let now = tx.now();
    queue::schedule(tx, row, now)?;
    let interrupted = Interrupted::Attempt { attempt: row.attempt_no };
    event::append_event(tx, row, DurableEvent::Interrupted(interrupted))?;
    row.save(tx)?;
    queue::refresh(tx, &row.namespace, &row.session_id)
}

/// Requeues a run without its fault: neither a failure nor a crash is counted.
pub(crate) fn go_back(
    tx: &mut Tx<'_>,
    row: &mut Locked<RunRow>,
    detail: &str,
    after: Duration,
) -> Result<(), EngineError> {
    end::release(tx, row, None, Some(detail))?;
    journal::lose_open_steps(tx, row.id)?;
    move_run(row, RunTransition::Requeued)?;
    let at = tx.now().after(after);
    queue::schedule(tx, row, at)?;
    let handed_over = HandedOver { attempt: row.attempt_no, detail: detail.to_owned() };
    event::append_event(tx, row, DurableEvent::HandedOver(handed_over))?;
    row.save(tx)?;
    requeue_task(tx, row)?;
    queue::refresh(tx, &row.namespace, &row.session_id)
}

/// Shows the task of a requeued run as queued.
pub(crate) fn requeue_task(tx: &mut Tx<'_>, row: &RunRow) -> Result<(), EngineError> {
    if let Some(mut task) = task::lock(tx, row.task_id)? {
        move_task(tx, &mut task, TaskTransition::Requeued)?;
    }
    Ok(())
}

/// Failure of an attempt.
struct Failure<'a> {
    code: OutcomeCode,
    detail: &'a str,
    error: Option<&'a EndError>,
    retry_after: Option<Duration>,
}

fn fail(
    tx: &mut Tx<'_>,
    row: &mut Locked<RunRow>,
    failure: &Failure<'_>,
    chance: f64,
) -> Result<(), EngineError> {
    let Failure { code, detail, error, retry_after } = *failure;
    let retry = policy(row)?.retry;
    row.failure_count += 1;
    let tries = u32::try_from(row.failure_count).unwrap_or(u32::MAX);
    let delay = retry.retries(code).then(|| retry.next_delay(tries, retry_after, chance)).flatten();
    let Some(delay) = delay else {
        if retry.pause_at_end && code.retry_class() != RetryClass::Never {
            return pause(tx, row, code, detail);
        }
        let ending = Ending { error: error.cloned(), ..Ending::because(code, detail) };
        return end::end_run(tx, row, &ending);
    };
    budget::drop_try(tx, row, Some(code))?;
    end::release(tx, row, Some(code), Some(detail))?;
    journal::lose_open_steps(tx, row.id)?;
    move_run(row, RunTransition::Requeued)?;
    let at = tx.now().after(delay);
    queue::schedule(tx, row, at)?;
    let detail = detail.to_owned();
    let retry = RetryScheduled { code, detail, at, failures: row.failure_count };
    event::append_event(tx, row, DurableEvent::RetryScheduled(retry))?;
    row.save(tx)?;
    requeue_task(tx, row)?;
    queue::refresh(tx, &row.namespace, &row.session_id)
}

/// Parks a run for an operator: its retries are exhausted, and its policy is to pause instead of ending it.
pub(crate) fn pause(
    tx: &mut Tx<'_>,
    row: &mut Locked<RunRow>,
    code: OutcomeCode,
    detail: &str,
) -> Result<(), EngineError> {
    budget::drop_try(tx, row, Some(code))?;
    end::release(tx, row, Some(code), Some(detail))?;
    journal::lose_open_steps(tx, row.id)?;
    move_run(row, RunTransition::Parked(WaitReason::Operator))?;
    row.paused = Some(tx.now());
    row.outcome_code = Some(code.as_str().to_owned());
    row.detail = Some(detail.to_owned());
    let (waits_for, detail) = (WaitReason::Operator, Some(detail.to_owned()));
    let parked = Parked { reason: waits_for, code: Some(code), detail };
    event::append_event(tx, row, DurableEvent::Parked(parked))?;
    row.save(tx)?;
    if let Some(mut task) = task::lock(tx, row.task_id)? {
        task.waiting_for = Some(WaitReason::Operator.as_str().to_owned());
        task.save(tx)?;
        move_task(tx, &mut task, TaskTransition::WaitingForInput)?;
    }
    end::free_session(tx, row)?;
    queue::refresh(tx, &row.namespace, &row.session_id)
}
