//! Claiming: a worker takes runs, each under a new epoch.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use provost_core::work::{
    AttemptStatus, OutcomeCode, RetryClass, RunEvent, RunStatus, Strategy, TaskEvent, TaskState,
};
use provost_core::{Env, RunId, TaskId, Timestamp, WorkerId};
use provost_failpoint::failpoint;
use provost_store::Tx;
use provost_store::row::held::Held;
use provost_store::row::run::{self, RunRow};
use provost_store::row::task::{self, TaskRow};
use provost_store::row::{attempt, exec_class, input, log, session, timer};
use serde_json::json;

use crate::error::EngineError;
use crate::focus::Focus;
use crate::lease::Lease;
use crate::load::{self, Loaded};
use crate::state::{move_run, move_task, word};
use crate::{budget, child, class, event, queue};

/// The format of steps that this build writes; it reads all before it. 2: what several children used is one step.
pub const BUILD: u64 = 2;

/// Turns that fit into one millisecond; so many claims of one transaction keep their order.
const TURNS_PER_MILLI: u64 = 1024;

/// Who claims, and what.
#[derive(Debug, Clone)]
pub(crate) struct Claimer {
    pub(crate) worker: WorkerId,
    pub(crate) pool: String,
    /// The sessions it serves, if not all.
    pub(crate) focus: Option<Focus>,
    /// How long a lease lasts without a word.
    pub(crate) ttl: Duration,
    pub(crate) env: Env,
    /// Nothing is claimed before this moment of the database's clock: the service has just crashed too often.
    pub(crate) not_before: Option<Timestamp>,
    /// What is above the tasks of the last child that was claimed: its siblings come next, and that never changes.
    pub(crate) above: Arc<Mutex<Option<(TaskId, Above)>>>,
}

/// Tasks with their sessions, nearest first.
type Above = Vec<(TaskId, String)>;

impl Claimer {
    /// The tasks above a task.
    fn above(&self, tx: &mut Tx<'_>, task: &TaskRow) -> Result<Above, EngineError> {
        let Some(parent) = task.parent_task_id else { return Ok(Vec::new()) };
        let known = self.above.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((_, above)) = known.filter(|(of, _)| *of == parent) {
            return Ok(above);
        }
        let above = log::above(tx, task.id)?;
        *self.above.lock().unwrap_or_else(PoisonError::into_inner) = Some((parent, above.clone()));
        Ok(above)
    }
}

/// A run that was claimed.
pub(crate) struct Claimed {
    pub(crate) lease: Lease,
    /// What its first attempt begins with; later ones look for themselves.
    pub(crate) fresh: Option<Loaded>,
}

/// What a claim has brought.
#[derive(Default)]
pub(crate) struct Claims {
    pub(crate) taken: Vec<Claimed>,
    /// True if there may be more for whoever has more room, or has let go of what is still being unwound.
    pub(crate) more: bool,
}

/// Takes up to `max` runs, but none of `except`.
pub(crate) fn claim(
    tx: &mut Tx<'_>,
    claimer: &Claimer,
    max: usize,
    except: &[RunId],
) -> Result<Claims, EngineError> {
    let mut claims = Claims::default();
    if claimer.not_before.is_some_and(|until| tx.now() < until) {
        return Ok(claims);
    }
    while claims.taken.len() < max {
        let (found, left_out) = next(tx, claimer, except)?;
        claims.more |= left_out;
        let Some(id) = found else { break };
        let missing = || EngineError::Unreadable(format!("{id} is missing"));
        let row = run::get(tx, id)?.ok_or_else(missing)?;
        let holder = run::holder(tx, &row.namespace, &row.session_id)?;
        if holder.is_some_and(|holder| holder.id != id) {
            // Somebody changed rows by hand. One wrong mark must not keep everybody from their work.
            run::unmark(tx, id)?;
            queue::refresh(tx, &row.namespace, &row.session_id)?;
            continue;
        }
        let turn = turn(tx.now(), claims.taken.len());
        if !class::take_slot(tx, &row, turn)? {
            break;
        }
        claims.taken.push(take(tx, claimer, row)?);
        // Nearly always it was the only one, which is found out faster than what would be next.
        if !run::any_ready(tx)? {
            break;
        }
    }
    claims.more |= claims.taken.len() == max;
    failpoint!("claim.before_commit");
    Ok(claims)
}

/// True if there is something to claim; it may be gone when somebody tries.
pub(crate) fn is_waiting(
    tx: &mut Tx<'_>,
    claimer: &Claimer,
    except: &[RunId],
) -> Result<bool, EngineError> {
    if claimer.not_before.is_some_and(|until| tx.now() < until) {
        return Ok(false);
    }
    Ok(next(tx, claimer, except)?.0.is_some())
}

/// The run to claim next that is none of `except`, and whether one of these was left out. Hardly ever one of those is found, so they are left out one by one.
fn next(
    tx: &mut Tx<'_>,
    claimer: &Claimer,
    except: &[RunId],
) -> Result<(Option<RunId>, bool), EngineError> {
    let mut left_out = Vec::new();
    loop {
        match claimer.next_ready(tx, &left_out)?.map(|(id, _)| id) {
            Some(id) if except.contains(&id) => left_out.push(id),
            found => return Ok((found, !left_out.is_empty())),
        }
    }
}

/// When a class was served, in an order that holds within one transaction too.
pub(crate) fn turn(now: Timestamp, claims_before: usize) -> u64 {
    let millis = u64::try_from(now.as_millis()).unwrap_or_default();
    millis.saturating_mul(TURNS_PER_MILLI).saturating_add(claims_before as u64)
}

fn take(tx: &mut Tx<'_>, claimer: &Claimer, mut run: RunRow) -> Result<Claimed, EngineError> {
    let strategy = strategy(tx, &run)?;
    let mut task = task::get(tx, run.task_id)?;
    begin(tx, &mut run, task.as_ref())?;
    if run.started.is_none() && run.queue_deadline.is_some() {
        timer::clear(tx, queue::QUEUE_DEADLINE, &run.id.to_string())?;
    }
    let revision = hold_session(tx, &run)?;
    if run.forked_from.is_none() && run.next_step == 1 {
        run.base_revision = Some(revision);
    }
    let above = match task.as_ref().filter(|_| run.parent_run_id.is_some()) {
        Some(task) => claimer.above(tx, task)?,
        None => Vec::new(),
    };
    let lease = lease_out(tx, claimer, &mut run, strategy, above)?;
    run.update(tx)?;
    if let Some(task) = &mut task {
        move_task(tx, task, TaskEvent::Dispatched)?;
    }
    // What cannot be read is told by the attempt.
    let fresh = load::fresh(tx, &run, task.as_ref(), revision, &claimer.env).unwrap_or(None);
    Ok(Claimed { lease, fresh })
}

/// Claims a run that was held in the transaction that lets it go; nothing if others come first or the claim must look closer.
pub(crate) fn at_release(
    tx: &mut Tx<'_>,
    claimer: &Claimer,
    ended: &RunRow,
    next: &Held,
) -> Result<Option<Claimed>, EngineError> {
    let Claimer { pool, focus, not_before, .. } = claimer;
    let serves = focus.is_none() && not_before.is_none_or(|until| until <= tx.now());
    if !serves || !next.is_first || run::any_ready_or_ceiling(tx)? != (false, false) {
        return Ok(None);
    }
    let Some(mut row) = run::get(tx, next.id)? else { return Ok(None) };
    // What has begun before may still be unwound somewhere.
    let is_plain = row.attempt_no == 0
        && row.pool == *pool
        && row.min_build <= BUILD
        && row.cancel_requested.is_none();
    if !is_plain || !exec_class::take(tx, &row.class_key, turn(tx.now(), 0))? {
        return Ok(None);
    }
    row.not_before = tx.now();
    row.queue_deadline = queue::deadline_after(tx, ended)?;
    take(tx, claimer, row).map(Some)
}

/// Claims a run in the transaction that makes it, in a session of its own. The caller stores both rows.
pub(crate) fn at_birth(
    tx: &mut Tx<'_>,
    claimer: &Claimer,
    run: &mut RunRow,
    task: &mut TaskRow,
) -> Result<Lease, EngineError> {
    set_deadline(tx, run, Some(task))?;
    let revision = hold_session(tx, run)?;
    run.base_revision = Some(revision);
    let lease = lease_out(tx, claimer, run, Strategy::Primary, Vec::new())?;
    if let Ok(running) = word::<TaskState>(&task.state)?.next(TaskEvent::Dispatched) {
        task.state = running.as_str().to_owned();
        task.version += 1;
    }
    Ok(lease)
}

/// Gives a run to a worker, under a new epoch, and begins its next attempt. The caller stores the row.
fn lease_out(
    tx: &mut Tx<'_>,
    claimer: &Claimer,
    run: &mut RunRow,
    strategy: Strategy,
    above: Above,
) -> Result<Lease, EngineError> {
    let now = tx.now();
    move_run(run, RunEvent::Claimed)?;
    run.ready = false;
    run.epoch += 1;
    run.attempt_no += 1;
    run.claim_count += 1;
    // What is written from now on can be read by builds like this one.
    run.min_build = run.min_build.max(BUILD);
    run.lease_owner = Some(claimer.worker);
    run.lease_until = Some(now.after(claimer.ttl));
    run.started.get_or_insert(now);
    let lease = Lease {
        run: run.id,
        task: run.task_id,
        namespace: run.namespace.clone(),
        session: run.session_id.clone(),
        epoch: run.epoch,
        attempt: run.attempt_no,
        worker: claimer.worker,
        execution: claimer.env.id(),
        budgets: budget::scopes(tx, run)?,
        above,
        base_revision: run.base_revision,
    };
    let attempt = attempt::AttemptRow {
        run_id: run.id,
        attempt_no: run.attempt_no,
        strategy: strategy.as_str().to_owned(),
        status: AttemptStatus::Running.as_str().to_owned(),
        epoch: run.epoch,
        provider: None,
        model: None,
        execution_id: lease.execution,
        worker_id: claimer.worker,
        started: now,
        ended: None,
        outcome_code: None,
        detail: None,
    };
    attempt.insert(tx)?;
    let body = json!({"attempt": run.attempt_no, "strategy": strategy, "worker": claimer.worker});
    event::push(tx, run, "attempt_started", body)?;
    Ok(lease)
}

/// What a claim means for what was said to a run: the first one begins with it, and each one takes up what interrupted the
/// attempt before. The time that a run has counts from its start, and anew from each new beginning.
fn begin(tx: &mut Tx<'_>, run: &mut RunRow, task: Option<&TaskRow>) -> Result<(), EngineError> {
    // A worker that was lost after the interruption has not given up the call that it was in.
    if run.interrupt_requested.take().is_some() {
        child::cancel_children_of_calls(tx, run)?;
    }
    // A fork has begun before: what is said to it comes behind what it shares.
    if run.attempt_no == 0 && run.forked_from.is_none() {
        input::begin_with(tx, run.id)?;
    }
    set_deadline(tx, run, task)
}

/// The time that a run has counts from its start.
fn set_deadline(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
    task: Option<&TaskRow>,
) -> Result<(), EngineError> {
    if let (RunStatus::Accepted, Some(timeout_ms)) = (word(&run.status)?, run.timeout_ms) {
        let task_deadline = task.and_then(|task| task.deadline);
        let own = tx.now().after(Duration::from_millis(timeout_ms));
        run.deadline = Some(task_deadline.map_or(own, |deadline| deadline.min(own)));
    }
    Ok(())
}

/// Why there is one more attempt: what ended the one before says so.
fn strategy(tx: &mut Tx<'_>, run: &RunRow) -> Result<Strategy, EngineError> {
    if run.attempt_no == 0 {
        return Ok(Strategy::Primary);
    }
    let Some(before) = attempt::get(tx, run.id, run.attempt_no)? else {
        return Ok(Strategy::Primary);
    };
    let code = before.outcome_code.as_deref().map(word::<OutcomeCode>).transpose()?;
    Ok(match code {
        None | Some(OutcomeCode::CancelledByInterrupt) => Strategy::Resume,
        Some(code) if code.retry_class() == RetryClass::Resume => Strategy::Resume,
        Some(_) => Strategy::Retry,
    })
}

/// Takes the session for a run, and returns the revision of the session.
fn hold_session(tx: &mut Tx<'_>, run: &RunRow) -> Result<u64, EngineError> {
    let missing = || {
        EngineError::Unreadable(format!(
            "session {} is missing or held by another run",
            run.session_id
        ))
    };
    session::hold(tx, &run.namespace, &run.session_id, run.id)?.ok_or_else(missing)
}

#[cfg(test)]
mod tests;
