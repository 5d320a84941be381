//! What becomes of a run when an attempt is over: the end, a wait, or another try.

use std::sync::Arc;
use std::time::Duration;

use provost_core::durable::{
    DurableEvent, EndError, HandedOver, Interrupted, Parked, RetryScheduled,
};
use provost_core::lifecycle::{ParkedFor, RunEvent, TaskEvent};
use provost_core::recovery::{OutcomeCode, RetryClass};
use provost_failpoint::failpoint;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::{journal, task};
use provost_store::{Locked, Tx};

use crate::approval::{self, Asking};
use crate::attempt::outcome::Verdict;
use crate::error::EngineError;
use crate::journal::transaction::fenced;
use crate::run::end::{self, Ending};
use crate::run::event;
use crate::run::lifecycle::{move_run, move_task, policy, word};
use crate::worker::lease::Lease;
use crate::{budget, child, queue};

/// How long a run waits that the database has refused.
const UNWRITTEN_DELAY: Duration = Duration::from_secs(1);

/// What a settlement needs to know besides the rows.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Terms {
    /// Spreads the waits of those that try again; in `0.0 ..= 1.0`.
    pub(crate) chance: f64,
    /// How questions are asked.
    pub(crate) asking: Asking,
    /// The step that must be committed before this, or 0.
    pub(crate) after: u64,
    /// No step before this one is without an outcome, if that is known.
    pub(crate) open_from: u64,
}

/// The run an attempt holds; [`Fenced`](provost_core::lifecycle::WorkError::Fenced) if it does not hold it any more.
pub(crate) fn held(tx: &mut Tx<'_>, lease: &Lease) -> Result<Locked<RunRow>, EngineError> {
    let row = run::lock(tx, lease.run)?.ok_or_else(|| EngineError::not_found("run", lease.run))?;
    if row.epoch != lease.epoch || row.phase != "leased" {
        return Err(fenced(tx, lease)?);
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
    verdict: &Verdict,
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
    verdict: &Verdict,
    terms: Terms,
) -> Result<(), EngineError> {
    if let Verdict::Ok(answer) = verdict {
        // It was done before anybody could stop it.
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
        Verdict::Ok(answer) => end::end_run(tx, row, &Ending::ok(Arc::clone(answer))),
        Verdict::Asks(requests) => approval::park(tx, row, requests, terms.asking),
        Verdict::Cancelled => {
            let ending = cancelled(row)?;
            end::end_run(tx, row, &ending)
        }
        Verdict::OutOfMoney(detail) => approval::ask_for_money(tx, row, detail, terms.asking),
        Verdict::HandedOver => go_back(tx, row, "its worker stops", Duration::ZERO),
        Verdict::Unwritten(detail) => go_back(tx, row, detail, UNWRITTEN_DELAY),
        Verdict::Failed { code, detail, error, retry_after } => {
            let error = error.as_ref();
            let failure = Failure { code: *code, detail, error, retry_after: *retry_after };
            fail(tx, row, &failure, terms.chance)
        }
    }
}

/// The end that somebody asked for.
pub(crate) fn cancelled(row: &RunRow) -> Result<Ending, EngineError> {
    let code = row.cancel_code.as_deref().map(word).transpose()?;
    let code = code.unwrap_or(OutcomeCode::CancelledByUser);
    let detail = match code {
        OutcomeCode::Deadline => "its time is over",
        _ => "it was cancelled",
    };
    Ok(Ending::because(code, detail))
}

/// A newer message takes the place of what the run did; it goes on with that.
fn begin_again(tx: &mut Tx<'_>, row: &mut Locked<RunRow>) -> Result<(), EngineError> {
    let code = OutcomeCode::CancelledByInterrupt;
    end::release(tx, row, Some(code), Some("a newer message took its place"))?;
    journal::lose_open_steps(tx, row.id)?;
    child::cancel_children_of_calls(tx, row)?;
    move_run(row, RunEvent::Interrupted)?;
    row.interrupt_requested = None;
    let now = tx.now();
    queue::schedule(tx, row, now)?;
    let interrupted = Interrupted::Attempt { attempt: row.attempt_no };
    event::append_event(tx, row, DurableEvent::Interrupted(interrupted))?;
    row.save(tx)?;
    queue::refresh(tx, &row.namespace, &row.session_id)
}

/// The run goes on with another attempt; nothing was its fault, so neither a try nor a crash is counted.
pub(crate) fn go_back(
    tx: &mut Tx<'_>,
    row: &mut Locked<RunRow>,
    detail: &str,
    after: Duration,
) -> Result<(), EngineError> {
    end::release(tx, row, None, Some(detail))?;
    journal::lose_open_steps(tx, row.id)?;
    move_run(row, RunEvent::Requeued)?;
    let at = tx.now().after(after);
    queue::schedule(tx, row, at)?;
    let handed_over = HandedOver { attempt: row.attempt_no, detail: detail.to_owned() };
    event::append_event(tx, row, DurableEvent::HandedOver(handed_over))?;
    row.save(tx)?;
    requeue_task(tx, row)?;
    queue::refresh(tx, &row.namespace, &row.session_id)
}

/// What people see of the task of a run that waits for its next attempt.
pub(crate) fn requeue_task(tx: &mut Tx<'_>, row: &RunRow) -> Result<(), EngineError> {
    if let Some(mut task) = task::lock(tx, row.task_id)? {
        move_task(tx, &mut task, TaskEvent::Requeued)?;
    }
    Ok(())
}

/// Why an attempt failed.
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
    let delay = retry.covers(code).then(|| retry.next_delay(tries, retry_after, chance)).flatten();
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
    move_run(row, RunEvent::Requeued)?;
    let at = tx.now().after(delay);
    queue::schedule(tx, row, at)?;
    let detail = detail.to_owned();
    let retry = RetryScheduled { code, detail, at, failures: row.failure_count };
    event::append_event(tx, row, DurableEvent::RetryScheduled(retry))?;
    row.save(tx)?;
    requeue_task(tx, row)?;
    queue::refresh(tx, &row.namespace, &row.session_id)
}

/// Its tries are used up and an operator wants to look before it ends.
pub(crate) fn pause(
    tx: &mut Tx<'_>,
    row: &mut Locked<RunRow>,
    code: OutcomeCode,
    detail: &str,
) -> Result<(), EngineError> {
    budget::drop_try(tx, row, Some(code))?;
    end::release(tx, row, Some(code), Some(detail))?;
    journal::lose_open_steps(tx, row.id)?;
    move_run(row, RunEvent::Parked(ParkedFor::Operator))?;
    row.paused = Some(tx.now());
    row.outcome_code = Some(code.as_str().to_owned());
    row.detail = Some(detail.to_owned());
    let (waits_for, detail) = (ParkedFor::Operator, Some(detail.to_owned()));
    let parked = Parked { waits_for, code: Some(code), detail };
    event::append_event(tx, row, DurableEvent::Parked(parked))?;
    row.save(tx)?;
    if let Some(mut task) = task::lock(tx, row.task_id)? {
        task.waiting_for = Some(ParkedFor::Operator.as_str().to_owned());
        task.save(tx)?;
        move_task(tx, &mut task, TaskEvent::AwaitsInput)?;
    }
    end::free_session(tx, row)?;
    queue::refresh(tx, &row.namespace, &row.session_id)
}
