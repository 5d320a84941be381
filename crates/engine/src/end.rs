//! The end of an attempt and the end of a run: every place that lets go of a run goes through here.

use provost_core::work::{
    AfterRun, AttemptStatus, EndedRun, OutcomeCode, RunEvent, RunStatus, settle,
};
use provost_failpoint::failpoint;
use provost_store::row::run::{self, RunRow};
use provost_store::row::{approval_grant, attempt, journal, session, task, timer};
use provost_store::{Hint, Tx};
use serde_json::{Value, json};

use crate::error::EngineError;
use crate::queue::QUEUE_DEADLINE;
use crate::state::{move_run, set_task_state, word};
use crate::{approval, budget, child, class, delivery, event, followup, input, outbox, queue};

/// The timer that ends a run whose time is over.
pub(crate) const DEADLINE: &str = "run_deadline";

/// How a run ends.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Ending {
    pub(crate) event: RunEvent,
    pub(crate) code: Option<OutcomeCode>,
    pub(crate) detail: Option<String>,
    /// What it answered and used.
    pub(crate) result: Option<Value>,
    /// What it leaves to do.
    pub(crate) after: AfterRun,
}

impl Ending {
    /// It ended well.
    pub(crate) fn ok(result: Value) -> Self {
        Self {
            event: RunEvent::Succeeded,
            code: None,
            detail: None,
            result: Some(result),
            after: AfterRun::Nothing,
        }
    }

    /// It ended for a reason that has a code.
    pub(crate) fn because(code: OutcomeCode, detail: impl Into<String>) -> Self {
        let status = code.run_status().unwrap_or(RunStatus::Error);
        Self {
            event: RunEvent::ending(status).unwrap_or(RunEvent::Failed),
            code: Some(code),
            detail: Some(detail.into()),
            result: None,
            after: AfterRun::Nothing,
        }
    }
}

/// Ends the attempt that holds a run: its slot, its row, its open steps. The run itself goes on or ends elsewhere.
pub(crate) fn release(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
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
    let started = attempt::end(tx, (run.id, run.attempt_no), end)?.unwrap_or(tx.now());
    class::give_slot(tx, run, started, code)
}

/// Ends a run for good, and with it everything that waits for it. The row is stored here.
pub(crate) fn end_run(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
    ending: &Ending,
) -> Result<(), EngineError> {
    let detail = ending.detail.as_deref();
    release(tx, run, ending.code, detail)?;
    let state = move_run(run, ending.event)?;
    run.ready = false;
    run.outcome_code = ending.code.map(|code| code.as_str().to_owned());
    run.detail = ending.detail.clone();
    run.ended = Some(tx.now());
    if let Some(result) = &ending.result {
        run.usage = result.get("usage").map(Value::to_string);
        run.result = Some(result.to_string());
    }
    budget::drop_try(tx, run, ending.code)?;
    journal::fail_open_steps(tx, run.id)?;
    approval::close_open(tx, run)?;
    approval_grant::revoke_scope(tx, &run.namespace, &format!("run:{}", run.id))?;
    let kinds = [DEADLINE, QUEUE_DEADLINE, queue::DUE, child::WAIT_OVER];
    timer::clear_all(tx, kinds, &run.id.to_string())?;
    input::run_ended(tx, run, ending.code)?;
    delivery::plan(tx, run, state.status())?;
    let body = json!({
        "status": state.status(), "code": ending.code, "detail": ending.detail, "result": ending.result,
    });
    event::push(tx, run, terminal_kind(state.status()), body)?;
    outbox::run_ended(tx, run, state.status())?;
    run.update(tx)?;
    free_session(tx, run)?;
    child::parent_learns(tx, run)?;
    child::cancel_children(tx, run)?;
    settle_task(tx, run, state.status(), ending.after)?;
    if run::any_waiting(tx, &run.namespace, &run.session_id)? {
        queue::refresh(tx, &run.namespace, &run.session_id)?;
    }
    tx.hint(Hint::Ended(run.id));
    failpoint!("run.ended");
    Ok(())
}

/// The last event of a run, by how it ended.
fn terminal_kind(status: RunStatus) -> &'static str {
    match status {
        RunStatus::Ok => "finished",
        RunStatus::Timeout => "timed_out",
        RunStatus::Cancelled => "cancelled",
        RunStatus::Error | RunStatus::Accepted | RunStatus::Running => "failed",
    }
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
    status: RunStatus,
    after: AfterRun,
) -> Result<(), EngineError> {
    let Some(mut task) = task::get(tx, run.task_id)? else { return Ok(()) };
    task.cost_micros += run.cost_micros;
    let ended = EndedRun { id: run.id, status, after };
    match settle(word(&task.state)?, task.current_run_id, ended) {
        Some(next) => set_task_state(tx, &mut task, next)?,
        None => task.update(tx)?,
    }
    followup::start_next(tx, &mut task, run)
}
