//! Order of queued runs.
//!
//! Invariant: at most one run of a session is ready. If a run holds the session, only that run can be ready. Code
//! that releases a session, adds a run to it, or makes one due must call [`refresh`].

pub(crate) mod class;

use std::time::Duration;

use provost_core::{RunId, Timestamp};
use provost_store::table::governance::agent;
use provost_store::table::scheduling::timer;
use provost_store::table::work::run::{self, RunRow};
use provost_store::{Hint, Tx};

use crate::agent::AgentProfile;
use crate::attempt::timeouts::AgentTimeouts;
use crate::error::EngineError;

/// Timer that makes a run due.
pub(crate) const DUE: &str = "run_due";
/// Timer that ends a run that was not started in time.
pub(crate) const QUEUE_DEADLINE: &str = "run_queue_deadline";

/// Returns the rank of a run in its class, lower first: one step of priority counts like one minute of waiting.
pub(crate) fn rank(queued: Timestamp, priority: i64) -> i64 {
    queued.as_millis().saturating_sub(priority.saturating_mul(60_000))
}

/// Marks the next run of a session as ready, and no other.
pub(crate) fn refresh(tx: &mut Tx<'_>, namespace: &str, session: &str) -> Result<(), EngineError> {
    let next = match run::holder(tx, namespace, session)? {
        Some(holder) => {
            (holder.phase == "queued" && holder.not_before <= tx.now()).then_some(holder)
        }
        None => run::first_due(tx, namespace, session)?,
    };
    let next = next.map(|run| run.id);
    if run::set_ready(tx, namespace, session, next)? {
        tx.hint(Hint::RunReady);
    }
    Ok(())
}

/// Sets when a queued run may be claimed. The caller saves the row and then calls [`refresh`].
pub(crate) fn schedule(
    tx: &mut Tx<'_>,
    run: &mut RunRow,
    not_before: Timestamp,
) -> Result<(), EngineError> {
    run.not_before = not_before;
    run.ready = false;
    if not_before > tx.now() {
        timer::set(tx, DUE, &run.id.to_string(), not_before)?;
        tx.hint(Hint::Timer);
    } else {
        timer::clear(tx, DUE, &run.id.to_string())?;
    }
    Ok(())
}

/// Makes a deferred run due and starts its queue timeout. `before` is a run of the same call, so it has the same
/// agent.
pub(crate) fn release(tx: &mut Tx<'_>, before: &RunRow, next: RunId) -> Result<(), EngineError> {
    let Some(mut run) = run::lock(tx, next)? else { return Ok(()) };
    let deadline = deadline_after(tx, before)?;
    if let Some(deadline) = deadline {
        timer::set(tx, QUEUE_DEADLINE, &next.to_string(), deadline)?;
        tx.hint(Hint::Timer);
    }
    run.not_before = tx.now();
    run.queue_deadline = deadline;
    run.save(tx)?;
    refresh(tx, &run.namespace, &run.session_id)
}

/// Returns the queue deadline of a deferred run that is released now. `before` is a run of the same call, so it has
/// the same agent.
fn deadline_after(tx: &mut Tx<'_>, before: &RunRow) -> Result<Option<Timestamp>, EngineError> {
    // No queue timeout if the earlier run had none.
    let patience = match before.queue_deadline {
        Some(_) => patience(tx, before)?,
        None => None,
    };
    Ok(patience.map(|patience| tx.now().after(patience)))
}

/// Returns the queue timeout from the profile of a run's agent.
fn patience(tx: &mut Tx<'_>, run: &RunRow) -> Result<Option<Duration>, EngineError> {
    let profile = agent::get(tx, &run.namespace, &run.agent, run.agent_revision)?;
    let profile = profile.map(AgentProfile::read).transpose()?;
    let clocks = profile.map(|profile| AgentTimeouts::of(&profile.config)).transpose()?;
    Ok(clocks.and_then(AgentTimeouts::queue))
}
