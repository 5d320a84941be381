//! Claiming: a worker leases runs, each under a new epoch.

use std::time::Duration;

use provost_core::durable::{AttemptStarted, DurableEvent};
use provost_core::lifecycle::{
    AttemptReason, AttemptStatus, RunStatus, RunTransition, TaskTransition,
};
use provost_core::recovery::{OutcomeCode, RetryClass};
use provost_core::scheduling::TimerKind;
use provost_core::{RunId, Timestamp, WorkerId};
use provost_failpoint::failpoint;
use provost_store::query::event_log;
use provost_store::table::scheduling::timer;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::task::{self, TaskRow};
use provost_store::table::work::{attempt, input, run_event, session};
use provost_store::{Locked, Tx};

use crate::child;
use crate::error::EngineError;
use crate::run::event;
use crate::run::lifecycle::{transition_run, try_transition_task};
use crate::submit::execution_class;
use crate::submit::queue;
use crate::worker::lease::Lease;
use crate::worker::served_sessions::ServedSessions;

/// Journal format that this build writes. It reads all older formats. Format 2 stores the usage of several children
/// in one step.
pub const JOURNAL_FORMAT_VERSION: u64 = 2;

/// Distinct values per millisecond, so that the claims of one transaction keep their order.
const TURNS_PER_MILLI: u64 = 1024;

/// Worker that claims, and its selection of runs.
#[derive(Debug, Clone)]
pub(crate) struct ClaimContext {
    pub(crate) worker: WorkerId,
    pub(crate) pool: String,
    /// Sessions that it serves. `None`: all sessions.
    pub(crate) sessions: Option<ServedSessions>,
    /// Duration of a lease.
    pub(crate) ttl: Duration,
    /// Time of the database's clock before which the worker claims nothing, because of a crash loop.
    pub(crate) not_before: Option<Timestamp>,
}

/// Claims up to `max` runs, none of `except`, and returns their leases. Empty if none can be claimed.
pub(crate) fn claim(
    tx: &mut Tx<'_>,
    context: &ClaimContext,
    max: usize,
    except: &[RunId],
) -> Result<Vec<Lease>, EngineError> {
    let mut claimed = Vec::new();
    while claimed.len() < max {
        let Some(id) = next(tx, context, except)? else { break };
        let missing = || EngineError::Unreadable(format!("{id} is missing"));
        let row = run::lock(tx, id)?.ok_or_else(missing)?;
        let holder = run::session_owner(tx, &row.namespace, &row.session_id)?;
        if holder.is_some_and(|holder| holder.id != id) {
            // Rows were changed by hand. One wrong mark must not block the queue.
            run::clear_ready(tx, id)?;
            queue::refresh(tx, &row.namespace, &row.session_id)?;
            continue;
        }
        let turn = turn(tx.now(), claimed.len());
        if !execution_class::acquire_slot(tx, &row, turn)? {
            break;
        }
        claimed.push(claim_run(tx, context, row)?);
    }
    failpoint!("claim.before_commit");
    Ok(claimed)
}

/// Returns true if this worker can claim a run now, besides those in `except`.
pub(crate) fn has_claimable_run(
    tx: &mut Tx<'_>,
    context: &ClaimContext,
    except: &[RunId],
) -> Result<bool, EngineError> {
    Ok(next(tx, context, except)?.is_some())
}

/// Returns the next run to claim that is none of `except`. `None` if none can be claimed.
fn next(
    tx: &mut Tx<'_>,
    context: &ClaimContext,
    except: &[RunId],
) -> Result<Option<RunId>, EngineError> {
    if context.not_before.is_some_and(|until| tx.now() < until) {
        return Ok(None);
    }
    // Excluded runs are rarely ready, so the query excludes only those that it has found.
    let mut excluded = Vec::new();
    loop {
        match context.next_ready(tx, &excluded)?.map(|(id, _)| id) {
            Some(id) if except.contains(&id) => excluded.push(id),
            found => return Ok(found),
        }
    }
}

/// Returns the time at which a class is served, unique within one transaction.
pub(crate) fn turn(now: Timestamp, claims_before: usize) -> u64 {
    let millis = u64::try_from(now.as_millis()).unwrap_or_default();
    millis.saturating_mul(TURNS_PER_MILLI).saturating_add(claims_before as u64)
}

/// Leases a run to a worker under a new epoch, acquires its session, and inserts its next attempt.
fn claim_run(
    tx: &mut Tx<'_>,
    context: &ClaimContext,
    mut run: Locked<RunRow>,
) -> Result<Lease, EngineError> {
    let reason = reason(tx, &run)?;
    let waited = waiting_time(tx, &run)?;
    let mut task = task::lock(tx, run.task_id)?;
    prepare_run(tx, &mut run, task.as_deref())?;
    if run.started.is_none() && run.queue_deadline.is_some() {
        timer::clear(tx, TimerKind::QueueDeadline, &run.id.to_string())?;
    }
    let missing = || {
        EngineError::Unreadable(format!(
            "session {} is missing or held by another run",
            run.session_id
        ))
    };
    let revision =
        session::acquire(tx, &run.namespace, &run.session_id, run.id)?.ok_or_else(missing)?;
    if run.forked_from.is_none() && run.next_step == 1 {
        run.base_revision = Some(revision);
    }
    let now = tx.now();
    transition_run(&mut run, RunTransition::Claimed)?;
    run.ready = false;
    run.epoch += 1;
    run.attempt_no += 1;
    run.claim_count += 1;
    // From now on, only builds with this format or a newer one can read the run.
    run.min_build = run.min_build.max(JOURNAL_FORMAT_VERSION);
    run.lease_owner = Some(context.worker);
    run.lease_until = Some(now.after(context.ttl));
    run.started.get_or_insert(now);
    let ancestors = match run.parent_run_id {
        Some(_) => event_log::ancestors(tx, run.task_id)?,
        None => Vec::new(),
    };
    let lease = Lease {
        run: run.id,
        task: run.task_id,
        kind: run.kind,
        namespace: run.namespace.clone(),
        session: run.session_id.clone(),
        epoch: run.epoch,
        attempt: run.attempt_no,
        worker: context.worker,
        execution: tx.id(),
        budgets: provost_store::table::governance::budget::scopes_of_run(tx, &run)?,
        ancestors,
        resource_set: run.resource_set.clone(),
        base_revision: run.base_revision,
        waited,
    };
    insert_attempt(tx, &lease, reason)?;
    let started =
        AttemptStarted { attempt: run.attempt_no, strategy: reason, worker: context.worker };
    event::append_event(tx, &mut run, DurableEvent::AttemptStarted(started))?;
    run.save(tx)?;
    if let Some(task) = &mut task {
        let _applied = try_transition_task(tx, task, TaskTransition::Dispatched)?;
    }
    Ok(lease)
}

/// Returns the time since a run was due or since its last event, whichever is later.
fn waiting_time(tx: &mut Tx<'_>, run: &RunRow) -> Result<Duration, EngineError> {
    let last = run_event::last(tx, run.id)?.map_or(run.not_before, |event| event.at);
    Ok(tx.now().since(run.not_before.max(last)))
}

/// Inserts the row of a started attempt.
fn insert_attempt(
    tx: &mut Tx<'_>,
    lease: &Lease,
    reason: AttemptReason,
) -> Result<(), EngineError> {
    let attempt = attempt::AttemptRow {
        run_id: lease.run,
        attempt_no: lease.attempt,
        strategy: reason,
        status: AttemptStatus::Running,
        epoch: lease.epoch,
        provider: None,
        model: None,
        execution_id: lease.execution,
        worker_id: lease.worker,
        started: tx.now(),
        ended: None,
        outcome_code: None,
        detail: None,
    };
    Ok(attempt.insert(tx)?)
}

/// Prepares a run for its attempt. The first attempt begins with the first inputs. Every attempt clears the
/// interruption of the attempt before. The deadline of the run counts from its first start, and again from its start
/// after an interruption.
fn prepare_run(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
    task: Option<&TaskRow>,
) -> Result<(), EngineError> {
    // A worker that was lost after the interruption has not cancelled the children of its call.
    if run.interrupt_requested.take().is_some() {
        child::cancel_children_of_calls(tx, run)?;
    }
    // A fork has begun already: its inputs follow the shared steps.
    if run.attempt_no == 0 && run.forked_from.is_none() {
        input::claim_first(tx, run.id)?;
    }
    if let (RunStatus::Accepted, Some(timeout_ms)) = (run.status, run.timeout_ms) {
        let task_deadline = task.and_then(|task| task.deadline);
        let own = tx.now().after(Duration::from_millis(timeout_ms));
        run.deadline = Some(task_deadline.map_or(own, |deadline| deadline.min(own)));
    }
    Ok(())
}

/// Returns the reason for another attempt, from the outcome of the attempt before.
fn reason(tx: &mut Tx<'_>, run: &RunRow) -> Result<AttemptReason, EngineError> {
    if run.attempt_no == 0 {
        return Ok(AttemptReason::Primary);
    }
    let Some(before) = attempt::get(tx, run.id, run.attempt_no)? else {
        return Ok(AttemptReason::Primary);
    };
    let code = before.outcome_code;
    Ok(match code {
        None | Some(OutcomeCode::CancelledByInterrupt) => AttemptReason::Resume,
        Some(code) if code.retry_class() == RetryClass::Resume => AttemptReason::Resume,
        Some(_) => AttemptReason::Retry,
    })
}

#[cfg(test)]
mod tests;
