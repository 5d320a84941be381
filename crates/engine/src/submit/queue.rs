//! Order of queued runs.
//!
//! Invariant: at most one run of a session is ready. If a run holds the session, only that run can be ready. Code
//! that releases a session, adds a run to it, or makes one due must call [`refresh`].

use std::time::Duration;

use provost_core::lifecycle::RunPhase;
use provost_core::scheduling::TimerKind;
use provost_core::{RunId, Timestamp};
use provost_store::table::governance::agent;
use provost_store::table::scheduling::timer;
use provost_store::table::work::run::{self, RunRow};
use provost_store::{Tx, Wakeup};

use crate::agent::AgentRevision;
use crate::error::EngineError;

/// Returns the rank of a run in its class, lower first: one step of priority counts like one minute of waiting.
pub(crate) fn rank(queued: Timestamp, priority: i64) -> i64 {
    queued.as_millis().saturating_sub(priority.saturating_mul(60_000))
}

/// Marks the next run of a session as ready, and no other.
pub(crate) fn refresh(tx: &mut Tx<'_>, namespace: &str, session: &str) -> Result<(), EngineError> {
    let next = match run::session_owner(tx, namespace, session)? {
        Some(holder) => {
            (holder.phase == RunPhase::Queued && holder.not_before <= tx.now()).then_some(holder)
        }
        None => run::first_due(tx, namespace, session)?,
    };
    let next = next.map(|run| run.id);
    if run::set_ready(tx, namespace, session, next)? {
        tx.wake(Wakeup::RunReady);
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
        timer::set(tx, TimerKind::RunDue, &run.id.to_string(), not_before)?;
        tx.wake(Wakeup::Timer);
    } else {
        timer::clear(tx, TimerKind::RunDue, &run.id.to_string())?;
    }
    Ok(())
}

/// Makes a deferred run due and starts its queue timeout. `before` is a run of the same call, so it has the same
/// agent.
pub(crate) fn release_deferred(
    tx: &mut Tx<'_>,
    before: &RunRow,
    next: RunId,
) -> Result<(), EngineError> {
    let Some(mut run) = run::lock(tx, next)? else { return Ok(()) };
    let deadline = deadline_after(tx, before)?;
    if let Some(deadline) = deadline {
        timer::set(tx, TimerKind::QueueDeadline, &next.to_string(), deadline)?;
        tx.wake(Wakeup::Timer);
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
    let queue_timeout = match before.queue_deadline {
        Some(_) => queue_timeout(tx, before)?,
        None => None,
    };
    Ok(queue_timeout.map(|queue_timeout| tx.now().after(queue_timeout)))
}

/// Returns the queue timeout that the agent of a run sets.
fn queue_timeout(tx: &mut Tx<'_>, run: &RunRow) -> Result<Option<Duration>, EngineError> {
    let revision = agent::get(tx, &run.namespace, &run.agent, run.agent_revision)?;
    let revision = revision.map(AgentRevision::from_row).transpose()?;
    Ok(revision.and_then(|revision| revision.config.timeouts.queue()))
}
