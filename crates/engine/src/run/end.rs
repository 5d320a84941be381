//! End of an attempt and end of a run. Every release of a run goes through this module.

use std::sync::Arc;

use provost_core::durable::{DurableEvent, EndError, RunEnded, StoredJson};
use provost_core::lifecycle::{
    AttemptStatus, FinishedRun, RunStatus, RunTransition, task_state_after_run,
};
use provost_core::recovery::OutcomeCode;
use provost_failpoint::failpoint;
use provost_store::query::pending_work::{self, Left};
use provost_store::table::governance::approval_grant;
use provost_store::table::scheduling::timer;
use provost_store::table::work::run::RunRow;
use provost_store::table::work::task::{self, TaskRow};
use provost_store::table::work::{attempt, journal, run_join, session};
use provost_store::{Hint, Locked, Tx};

use crate::attempt::outcome::SerializedResult;
use crate::error::EngineError;
use crate::input::follow_up;
use crate::outbound::{delivery, outbox};
use crate::queue::QUEUE_DEADLINE;
use crate::queue::class;
use crate::run::event;
use crate::run::lifecycle::{move_run, set_task_state, word};
use crate::{approval, budget, child, input, queue};

/// Timers of a run that its row does not show.
const TIMERS: [&str; 3] = [QUEUE_DEADLINE, queue::DUE, timer::CHILD_WAIT];

/// How a run ends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ending {
    pub(crate) event: RunTransition,
    pub(crate) code: Option<OutcomeCode>,
    pub(crate) detail: Option<String>,
    /// Error kind and code, if known more precisely than by the outcome code.
    pub(crate) error: Option<EndError>,
    /// Result and usage of a completed run.
    pub(crate) answer: Option<Arc<SerializedResult>>,
}

impl Ending {
    /// End of a completed run.
    pub(crate) fn ok(answer: Arc<SerializedResult>) -> Self {
        Self {
            event: RunTransition::Succeeded,
            code: None,
            detail: None,
            error: None,
            answer: Some(answer),
        }
    }

    /// End of a run for a reason with an outcome code.
    pub(crate) fn because(code: OutcomeCode, detail: impl Into<String>) -> Self {
        let status = code.run_status().unwrap_or(RunStatus::Error);
        Self {
            event: RunTransition::for_terminal_status(status).unwrap_or(RunTransition::Failed),
            code: Some(code),
            detail: Some(detail.into()),
            error: None,
            answer: None,
        }
    }
}

/// Ends the attempt that leases a run: releases its lease and its slot. The caller then requeues, parks or ends the
/// run.
pub(crate) fn release(
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
    let status = code.map_or(AttemptStatus::Ok, OutcomeCode::attempt_status).as_str();
    let outcome_code = code.map(OutcomeCode::as_str);
    let end = attempt::AttemptEnd { status, outcome_code, detail };
    attempt::end(tx, run.id, run.attempt_no, end)?;
    class::give_slot(tx, run, code)
}

/// Ends a run and everything that depends on it. Saves the row.
pub(crate) fn end_run(
    tx: &mut Tx<'_>,
    run: &mut Locked<RunRow>,
    ending: &Ending,
) -> Result<(), EngineError> {
    let detail = ending.detail.as_deref();
    let left = pending_work::of_run(tx, run, TIMERS)?;
    if run.phase == "parked" {
        run_join::remove_of_run(tx, run.id)?;
    }
    release(tx, run, ending.code, detail)?;
    let state = move_run(run, ending.event)?;
    run.ready = false;
    run.outcome_code = ending.code.map(|code| code.as_str().to_owned());
    run.detail = ending.detail.clone();
    run.ended = Some(tx.now());
    if let Some(SerializedResult { result, usage }) = ending.answer.as_deref() {
        run.usage = Some(usage.clone());
        run.result = Some(result.clone());
    }
    if run.open_from < run.next_step {
        budget::drop_try(tx, run, ending.code)?;
        journal::fail_open_steps(tx, run.id, run.open_from)?;
    }
    clear(tx, run, left, ending.code)?;
    event::append_event(tx, run, end_event(ending, state.status())?)?;
    outbox::run_ended(tx, run, state.status())?;
    run.save(tx)?;
    free_session(tx, run)?;
    child::parent_learns(tx, run)?;
    if left.children {
        child::cancel_children(tx, run)?;
    }
    // Locked this late, because the caller may have changed the task in this transaction.
    if let Some(mut task) = task::lock(tx, run.task_id)? {
        delivery::plan(tx, run, &task, state.status())?;
        settle_task(tx, run, &mut task, state.status())?;
        if left.inputs || left.others {
            follow_up::start_next(tx, &mut task, run)?;
        }
    }
    if left.waiting {
        queue::refresh(tx, &run.namespace, &run.session_id)?;
    }
    tx.hint(Hint::Ended(run.id));
    failpoint!("run.ended");
    Ok(())
}

/// Closes approvals, grants, timers and inputs of a run that ends.
fn clear(
    tx: &mut Tx<'_>,
    run: &mut Locked<RunRow>,
    left: Left,
    code: Option<OutcomeCode>,
) -> Result<(), EngineError> {
    if left.questions {
        approval::close_open(tx, run)?;
    }
    if left.grants {
        approval_grant::revoke_scope(tx, &run.namespace, &format!("run:{}", run.id))?;
    }
    if left.timers {
        timer::clear_all(tx, TIMERS, &run.id.to_string())?;
    }
    // A run that is cancelled also withdraws the inputs it has received.
    if left.inputs || run.cancel_code.is_some() {
        input::run_ended(tx, run, code)?;
    }
    Ok(())
}

/// Returns the terminal event of a run.
fn end_event(ending: &Ending, status: RunStatus) -> Result<DurableEvent, EngineError> {
    let (code, detail) = (ending.code, ending.detail.clone());
    let result = ending.answer.as_ref().map(|answer| StoredJson::new(answer.result.clone()));
    let error = match status {
        RunStatus::Error | RunStatus::Timeout => {
            ending.error.clone().or_else(|| code.map(error_of))
        }
        _ => None,
    };
    Ok(DurableEvent::end(RunEnded { code, detail, result: result.transpose()?, status, error }))
}

/// Returns the default error of an outcome code.
fn error_of(code: OutcomeCode) -> EndError {
    EndError { kind: code.error_kind(), code: code.as_str().to_owned() }
}

/// Releases the session of a run that no longer needs it.
pub(crate) fn free_session(tx: &mut Tx<'_>, run: &RunRow) -> Result<(), EngineError> {
    if run.holds_session {
        return Ok(());
    }
    session::free(tx, &run.namespace, &run.session_id, run.id)?;
    Ok(())
}

/// Updates the task of an ended run: it continues with its next message or ends. No other code moves a task at the
/// end of a run.
fn settle_task(
    tx: &mut Tx<'_>,
    run: &RunRow,
    task: &mut Locked<TaskRow>,
    status: RunStatus,
) -> Result<(), EngineError> {
    task.cost_micros += run.cost_micros;
    let ended = FinishedRun { id: run.id, status };
    match task_state_after_run(word(&task.state)?, task.current_run_id, ended) {
        Some(next) => set_task_state(tx, task, next)?,
        None => task.save(tx)?,
    }
    Ok(())
}
