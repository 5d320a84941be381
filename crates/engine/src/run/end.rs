//! End of an attempt and end of a run. Every release of a run goes through this module.

use std::sync::Arc;

use provost_core::durable::{DurableEvent, EndError, RunEnded, StoredJson};
use provost_core::lifecycle::{
    AttemptStatus, FinishedRun, RunPhase, RunStatus, RunTransition, task_state_after_run,
};
use provost_core::recovery::OutcomeCode;
use provost_core::scheduling::TimerKind;
use provost_failpoint::failpoint;
use provost_store::query::pending_work::{self, PendingWork};
use provost_store::table::governance::approval_grant;
use provost_store::table::scheduling::timer;
use provost_store::table::work::run::RunRow;
use provost_store::table::work::task::{self, TaskRow};
use provost_store::table::work::{attempt, journal, run_join, session};
use provost_store::{Locked, Tx, Wakeup};

use crate::attempt::outcome::SerializedResult;
use crate::error::EngineError;
use crate::input::follow_up;
use crate::outbound::{delivery, outbox};
use crate::run::event;
use crate::run::lifecycle::{set_task_state, transition_run};
use crate::submit::execution_class;
use crate::submit::queue;
use crate::{approval, budget, child, input};

/// Timers of a run that its row does not show.
const TIMERS: [TimerKind; 3] = [TimerKind::QueueDeadline, TimerKind::RunDue, TimerKind::ChildWait];

/// How a run ends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct RunEnd {
    pub(crate) event: RunTransition,
    pub(crate) code: Option<OutcomeCode>,
    pub(crate) detail: Option<String>,
    /// Error kind and code, if known more precisely than by the outcome code.
    pub(crate) error: Option<EndError>,
    /// Result and usage of a completed run.
    pub(crate) result: Option<Arc<SerializedResult>>,
}

impl RunEnd {
    /// Returns the end of a completed run.
    pub(crate) fn ok(result: Arc<SerializedResult>) -> Self {
        Self {
            event: RunTransition::Succeeded,
            code: None,
            detail: None,
            error: None,
            result: Some(result),
        }
    }

    /// Returns the end of a run for a reason with an outcome code.
    pub(crate) fn with_code(code: OutcomeCode, detail: impl Into<String>) -> Self {
        let status = code.run_status().unwrap_or(RunStatus::Error);
        Self {
            event: RunTransition::for_terminal_status(status).unwrap_or(RunTransition::Failed),
            code: Some(code),
            detail: Some(detail.into()),
            error: None,
            result: None,
        }
    }
}

/// Ends the attempt that leases a run: records its outcome, releases its lease and its slot. The caller then requeues,
/// parks or ends the run.
pub(crate) fn release_attempt(
    tx: &mut Tx<'_>,
    run: &mut Locked<RunRow>,
    code: Option<OutcomeCode>,
    detail: Option<&str>,
) -> Result<(), EngineError> {
    if run.lease_owner.is_none() {
        return Ok(());
    }
    run.lease_owner = None;
    run.lease_until = None;
    let status = code.map_or(AttemptStatus::Ok, OutcomeCode::attempt_status);
    let end = attempt::EndAttempt { status, outcome_code: code, detail };
    attempt::end(tx, run.id, run.attempt_no, end)?;
    execution_class::release_slot(tx, run, code)
}

/// Ends a run: closes its approvals, timers and inputs, cancels its children, notifies its parent, and releases its
/// session for the next run. Saves the row.
pub(crate) fn end_run(
    tx: &mut Tx<'_>,
    run: &mut Locked<RunRow>,
    end: &RunEnd,
) -> Result<(), EngineError> {
    let detail = end.detail.as_deref();
    let pending = pending_work::of_run(tx, run, TIMERS)?;
    if run.phase == RunPhase::Parked {
        run_join::remove_of_run(tx, run.id)?;
    }
    release_attempt(tx, run, end.code, detail)?;
    let state = transition_run(run, end.event)?;
    run.ready = false;
    run.outcome_code = end.code;
    run.detail = end.detail.clone();
    run.ended = Some(tx.now());
    if let Some(SerializedResult { result, usage }) = end.result.as_deref() {
        run.usage = Some(usage.clone());
        run.result = Some(result.clone());
    }
    if run.open_from < run.next_step {
        budget::settle_failed_call(tx, run, end.code)?;
        journal::fail_open_steps(tx, run.id, run.open_from)?;
    }
    close_dependents(tx, run, pending, end.code)?;
    event::append_event(tx, run, end_event(end, state.status())?)?;
    outbox::run_ended(tx, run, state.status())?;
    run.save(tx)?;
    let usage = run.usage.as_deref().and_then(|usage| serde_json::from_str(usage).ok());
    let cost_micros = u64::try_from(run.cost_micros).unwrap_or_default();
    tx.count_ended_run(&run.agent, cost_micros, usage.unwrap_or_default());
    release_session(tx, run)?;
    child::notify_parent(tx, run)?;
    if pending.children {
        child::cancel_children(tx, run)?;
    }
    // Locked this late, because the caller may have changed the task in this transaction.
    if let Some(mut task) = task::lock(tx, run.task_id)? {
        delivery::create_delivery(tx, run, &task, state.status())?;
        update_task_after_run(tx, run, &mut task, state.status())?;
        if pending.inputs || pending.other_runs {
            follow_up::start_next(tx, &mut task, run)?;
        }
    }
    if pending.queued_runs {
        queue::refresh(tx, &run.namespace, &run.session_id)?;
    }
    tx.wake(Wakeup::Ended(run.id));
    failpoint!("run.ended");
    Ok(())
}

/// Closes approvals, grants, timers and inputs of a run that ends.
fn close_dependents(
    tx: &mut Tx<'_>,
    run: &mut Locked<RunRow>,
    pending: PendingWork,
    code: Option<OutcomeCode>,
) -> Result<(), EngineError> {
    if pending.approvals {
        approval::cancel_pending(tx, run)?;
    }
    if pending.grants {
        approval_grant::revoke_scope(tx, &run.namespace, &format!("run:{}", run.id))?;
    }
    if pending.timers {
        timer::clear_all(tx, TIMERS, &run.id.to_string())?;
    }
    // A run that is cancelled also withdraws the inputs it has received.
    if pending.inputs || run.cancel_code.is_some() {
        input::run_ended(tx, run, code)?;
    }
    Ok(())
}

/// Returns the terminal event of a run.
fn end_event(end: &RunEnd, status: RunStatus) -> Result<DurableEvent, EngineError> {
    let (code, detail) = (end.code, end.detail.clone());
    let result = end.result.as_ref().map(|result| StoredJson::new(result.result.clone()));
    let error = match status {
        RunStatus::Error | RunStatus::Timeout => end.error.clone().or_else(|| code.map(error_of)),
        _ => None,
    };
    Ok(DurableEvent::end(RunEnded { code, detail, result: result.transpose()?, status, error }))
}

/// Returns the default error of an outcome code.
fn error_of(code: OutcomeCode) -> EndError {
    EndError { kind: code.error_kind(), code: code.as_str().to_owned() }
}

/// Releases the session of a run that no longer needs it.
pub(crate) fn release_session(tx: &mut Tx<'_>, run: &RunRow) -> Result<(), EngineError> {
    if run.holds_session {
        return Ok(());
    }
    session::release(tx, &run.namespace, &run.session_id, run.id)?;
    Ok(())
}

/// Adds the cost of an ended run to its task, and moves the task: it continues with its next message or ends. No other
/// code moves a task at the end of a run.
fn update_task_after_run(
    tx: &mut Tx<'_>,
    run: &RunRow,
    task: &mut Locked<TaskRow>,
    status: RunStatus,
) -> Result<(), EngineError> {
    task.cost_micros += run.cost_micros;
    let ended = FinishedRun { id: run.id, status };
    match task_state_after_run(task.state, task.current_run_id, ended) {
        Some(next) => set_task_state(tx, task, next)?,
        None => task.save(tx)?,
    }
    Ok(())
}
