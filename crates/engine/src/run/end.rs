//! The end of an attempt and the end of a run: every place that lets go of a run goes through here.

use std::sync::Arc;

use provost_core::durable::{DurableEvent, EndError, RunEnded, StoredJson};
use provost_core::lifecycle::{AttemptStatus, EndedRun, RunEvent, RunStatus, settle};
use provost_core::recovery::OutcomeCode;
use provost_failpoint::failpoint;
use provost_store::query::pending_work::{self, Left};
use provost_store::table::governance::approval_grant;
use provost_store::table::scheduling::timer;
use provost_store::table::work::run::RunRow;
use provost_store::table::work::task::{self, TaskRow};
use provost_store::table::work::{attempt, journal, run_join, session};
use provost_store::{Hint, Locked, Tx};

use crate::attempt::outcome::Answer;
use crate::error::EngineError;
use crate::input::follow_up;
use crate::outbound::{delivery, outbox};
use crate::queue::QUEUE_DEADLINE;
use crate::queue::class;
use crate::run::event;
use crate::run::lifecycle::{move_run, set_task_state, word};
use crate::{approval, budget, child, input, queue};

/// The timers of a run that its row does not tell of.
const TIMERS: [&str; 3] = [QUEUE_DEADLINE, queue::DUE, timer::CHILD_WAIT];

/// How a run ends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ending {
    pub(crate) event: RunEvent,
    pub(crate) code: Option<OutcomeCode>,
    pub(crate) detail: Option<String>,
    /// Class of its error, if it is known more precisely than by the code.
    pub(crate) error: Option<EndError>,
    /// What it answered and used.
    pub(crate) answer: Option<Arc<Answer>>,
}

impl Ending {
    /// It ended well.
    pub(crate) fn ok(answer: Arc<Answer>) -> Self {
        Self {
            event: RunEvent::Succeeded,
            code: None,
            detail: None,
            error: None,
            answer: Some(answer),
        }
    }

    /// It ended for a reason that has a code.
    pub(crate) fn because(code: OutcomeCode, detail: impl Into<String>) -> Self {
        let status = code.run_status().unwrap_or(RunStatus::Error);
        Self {
            event: RunEvent::ending(status).unwrap_or(RunEvent::Failed),
            code: Some(code),
            detail: Some(detail.into()),
            error: None,
            answer: None,
        }
    }
}

/// Ends the attempt that holds a run: its slot, its row, its open steps. The run itself goes on or ends elsewhere.
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

/// Ends a run for good, and with it everything that waits for it. The row is stored here.
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
    if let Some(Answer { result, usage }) = ending.answer.as_deref() {
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
    // Read here, because whoever started it may have put its task away just now.
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

/// Settles what waited for a run that ends.
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
    // Whoever takes a run back takes back what it had done, too.
    if left.inputs || run.cancel_code.is_some() {
        input::run_ended(tx, run, code)?;
    }
    Ok(())
}

/// The last event of a run.
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

/// Class of the error of a run that ended with a code.
fn error_of(code: OutcomeCode) -> EndError {
    EndError { kind: code.error_kind(), code: code.as_str().to_owned() }
}

/// Takes the session from a run that no longer holds it.
pub(crate) fn free_session(tx: &mut Tx<'_>, run: &RunRow) -> Result<(), EngineError> {
    if run.holds_session {
        return Ok(());
    }
    session::free(tx, &run.namespace, &run.session_id, run.id)?;
    Ok(())
}

/// The only place where the end of a run moves its task: on to its next message, or to its own end.
fn settle_task(
    tx: &mut Tx<'_>,
    run: &RunRow,
    task: &mut Locked<TaskRow>,
    status: RunStatus,
) -> Result<(), EngineError> {
    task.cost_micros += run.cost_micros;
    let ended = EndedRun { id: run.id, status };
    match settle(word(&task.state)?, task.current_run_id, ended) {
        Some(next) => set_task_state(tx, task, next)?,
        None => task.save(tx)?,
    }
    Ok(())
}
