//! Settlement of an attempt: the run ends, is parked, or is requeued.

use std::sync::Arc;
use std::time::Duration;

use provost_core::durable::{
    DurableEvent, EndError, HandedOver, Interrupted, Parked, RetryScheduled,
};
use provost_core::lifecycle::{RunPhase, RunTransition, TaskTransition, WaitReason};
use provost_core::recovery::{OutcomeCode, RetryClass};
use provost_failpoint::failpoint;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::{journal, task};
use provost_store::{Locked, Tx};

use crate::approval::{self, ApprovalSettings};
use crate::attempt::outcome::AttemptOutcome;
use crate::error::EngineError;
use crate::journal::transaction::fenced_error;
use crate::run::end::{self, RunEnd};
use crate::run::event;
use crate::run::lifecycle::{transition_run, try_transition_task};
use crate::submit::queue;
use crate::worker::lease::Lease;
use crate::{budget, child};

/// Delay before a run continues after the database rejected its writes.
const NOT_PERSISTED_DELAY: Duration = Duration::from_secs(1);

/// Parameters for settling the outcome of an attempt, which do not come from rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SettleParams {
    /// Random value in `0.0..=1.0` that spreads retries.
    pub(crate) chance: f64,
    /// Settings for new approvals.
    pub(crate) approval_settings: ApprovalSettings,
    /// Step that must be committed before the settlement, or 0.
    pub(crate) after: u64,
    /// Number of the first in-flight step; 0 if unknown.
    pub(crate) first_in_flight_step: u64,
}

/// Locks the run of an attempt. Returns [`Fenced`](provost_core::lifecycle::RequestError::Fenced) if the attempt does
/// not lease the run any more.
pub(crate) fn lock_leased_run(
    tx: &mut Tx<'_>,
    lease: &Lease,
) -> Result<Locked<RunRow>, EngineError> {
    let row = run::lock(tx, lease.run)?.ok_or_else(|| EngineError::not_found("run", lease.run))?;
    if row.epoch != lease.epoch || row.phase != RunPhase::Leased {
        return Err(fenced_error(tx, lease)?);
    }
    Ok(row)
}

/// Result of settling an attempt.
pub(crate) enum SettleResult {
    /// The outcome is stored.
    Done,
    /// Nothing is stored, because an earlier write of the attempt was lost.
    WriteLost,
}

/// Applies the outcome of an attempt to its run: ends, parks or requeues it. Stores nothing if an earlier write of the
/// attempt was lost. Fails if another attempt has the run.
pub(crate) fn settle(
    tx: &mut Tx<'_>,
    lease: &Lease,
    outcome: &AttemptOutcome,
    params: SettleParams,
) -> Result<SettleResult, EngineError> {
    let mut row = lock_leased_run(tx, lease)?;
    if params.after != 0 && !journal::is_committed(tx, lease.run, params.after)? {
        return Ok(SettleResult::WriteLost);
    }
    row.open_from = row.open_from.max(params.first_in_flight_step);
    let result = settle_locked(tx, &mut row, outcome, params);
    failpoint!("settle.before_commit");
    result?;
    Ok(SettleResult::Done)
}

/// Applies the outcome of an attempt to its locked run. A completed result wins over a cancellation, and a
/// cancellation over an interruption.
fn settle_locked(
    tx: &mut Tx<'_>,
    row: &mut Locked<RunRow>,
    outcome: &AttemptOutcome,
    params: SettleParams,
) -> Result<(), EngineError> {
    if let AttemptOutcome::Completed(answer) = outcome {
        // The run completed before the cancellation reached it.
        return end::end_run(tx, row, &RunEnd::ok(Arc::clone(answer)));
    }
    if row.cancel_requested.is_some() {
        let ending = cancelled(row)?;
        return end::end_run(tx, row, &ending);
    }
    if row.interrupt_requested.is_some() {
        return restart_with_input(tx, row);
    }
    match outcome {
        AttemptOutcome::Completed(answer) => end::end_run(tx, row, &RunEnd::ok(Arc::clone(answer))),
        AttemptOutcome::NeedsApproval(requests) => {
            approval::park_for_approval(tx, row, requests, params.approval_settings)
        }
        AttemptOutcome::Cancelled => {
            let ending = cancelled(row)?;
            end::end_run(tx, row, &ending)
        }
        AttemptOutcome::BudgetExceeded(detail) => {
            approval::request_budget_increase(tx, row, detail, params.approval_settings)
        }
        AttemptOutcome::Drained => requeue(tx, row, "its worker stops", Duration::ZERO),
        AttemptOutcome::NotPersisted(detail) => requeue(tx, row, detail, NOT_PERSISTED_DELAY),
        AttemptOutcome::Failed { code, detail, error, retry_after } => {
            let error = error.as_ref();
            let failure = AttemptFailure { code: *code, detail, error, retry_after: *retry_after };
            fail(tx, row, &failure, params.chance)
        }
    }
}

/// Returns the end of a cancelled run, with the code of the cancellation request.
pub(crate) fn cancelled(row: &RunRow) -> Result<RunEnd, EngineError> {
    let code = row.cancel_code;
    let code = code.unwrap_or(OutcomeCode::CancelledByUser);
    let detail = match code {
        OutcomeCode::DeadlineExceeded => "the deadline has passed",
        _ => "it was cancelled",
    };
    Ok(RunEnd::with_code(code, detail))
}

/// Requeues an interrupted run, which continues with the newer message. Steps in flight get an unknown outcome, and the children of its calls are cancelled.
fn restart_with_input(tx: &mut Tx<'_>, row: &mut Locked<RunRow>) -> Result<(), EngineError> {
    let code = OutcomeCode::CancelledByInterrupt;
    end::release_attempt(tx, row, Some(code), Some("a newer message interrupted it"))?;
    journal::mark_open_steps_unknown(tx, row.id)?;
    child::cancel_children_of_calls(tx, row)?;
    transition_run(row, RunTransition::Interrupted)?;
    row.interrupt_requested = None;
    let now = tx.now();
    queue::schedule(tx, row, now)?;
    let interrupted = Interrupted::Attempt { attempt: row.attempt_no };
    event::append_event(tx, row, DurableEvent::Interrupted(interrupted))?;
    row.save(tx)?;
    queue::refresh(tx, &row.namespace, &row.session_id)
}

/// Requeues a run without its fault: neither a failure nor a crash is counted.
pub(crate) fn requeue(
    tx: &mut Tx<'_>,
    row: &mut Locked<RunRow>,
    detail: &str,
    after: Duration,
) -> Result<(), EngineError> {
    end::release_attempt(tx, row, None, Some(detail))?;
    journal::mark_open_steps_unknown(tx, row.id)?;
    transition_run(row, RunTransition::Requeued)?;
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
        let _applied = try_transition_task(tx, &mut task, TaskTransition::Requeued)?;
    }
    Ok(())
}

/// Failure of an attempt.
struct AttemptFailure<'a> {
    code: OutcomeCode,
    detail: &'a str,
    error: Option<&'a EndError>,
    retry_after: Option<Duration>,
}

/// Schedules a retry of a failed run. Without retries left, parks the run for an operator or ends it, as its policy
/// says.
fn fail(
    tx: &mut Tx<'_>,
    row: &mut Locked<RunRow>,
    failure: &AttemptFailure<'_>,
    chance: f64,
) -> Result<(), EngineError> {
    let AttemptFailure { code, detail, error, retry_after } = *failure;
    let retry = row.execution_policy()?.retry;
    row.failure_count += 1;
    let tries = u32::try_from(row.failure_count).unwrap_or(u32::MAX);
    let delay = retry.retries(code).then(|| retry.next_delay(tries, retry_after, chance)).flatten();
    let Some(delay) = delay else {
        if retry.pause_at_end && code.retry_class() != RetryClass::Never {
            return park_for_operator(tx, row, code, detail);
        }
        let ending = RunEnd { error: error.cloned(), ..RunEnd::with_code(code, detail) };
        return end::end_run(tx, row, &ending);
    };
    budget::settle_failed_call(tx, row, Some(code))?;
    end::release_attempt(tx, row, Some(code), Some(detail))?;
    journal::mark_open_steps_unknown(tx, row.id)?;
    transition_run(row, RunTransition::Requeued)?;
    let at = tx.now().after(delay);
    queue::schedule(tx, row, at)?;
    let detail = detail.to_owned();
    let retry = RetryScheduled { code, detail, at, failures: row.failure_count };
    event::append_event(tx, row, DurableEvent::RetryScheduled(retry))?;
    row.save(tx)?;
    requeue_task(tx, row)?;
    queue::refresh(tx, &row.namespace, &row.session_id)
}

/// Parks a run for an operator, because its retries are exhausted and its policy is to pause instead of ending it.
/// Releases its lease and session.
pub(crate) fn park_for_operator(
    tx: &mut Tx<'_>,
    row: &mut Locked<RunRow>,
    code: OutcomeCode,
    detail: &str,
) -> Result<(), EngineError> {
    budget::settle_failed_call(tx, row, Some(code))?;
    end::release_attempt(tx, row, Some(code), Some(detail))?;
    journal::mark_open_steps_unknown(tx, row.id)?;
    transition_run(row, RunTransition::Parked(WaitReason::Operator))?;
    row.paused = Some(tx.now());
    row.outcome_code = Some(code);
    row.detail = Some(detail.to_owned());
    let (waits_for, detail) = (WaitReason::Operator, Some(detail.to_owned()));
    let parked = Parked { reason: waits_for, code: Some(code), detail };
    event::append_event(tx, row, DurableEvent::Parked(parked))?;
    row.save(tx)?;
    if let Some(mut task) = task::lock(tx, row.task_id)? {
        task.waiting_for = Some(WaitReason::Operator);
        task.save(tx)?;
        let _applied = try_transition_task(tx, &mut task, TaskTransition::WaitingForInput)?;
    }
    end::release_session(tx, row)?;
    queue::refresh(tx, &row.namespace, &row.session_id)
}
