//! Which run may be claimed next.
//!
//! Invariant: of the runs of a session at most one is ready, and it is the holder if there is one. Whoever frees a session,
//! adds a run to it or lets one become due calls [`refresh`].

pub(crate) mod class;

use std::time::Duration;

use provost_core::{RunId, Timestamp};
use provost_store::table::governance::agent;
use provost_store::table::scheduling::timer;
use provost_store::table::work::run::{self, RunRow};
use provost_store::{Hint, Tx};

use crate::agent::AgentProfile;
use crate::attempt::timeouts::Clocks;
use crate::error::EngineError;

/// The timer that makes a run due.
pub(crate) const DUE: &str = "run_due";
/// The timer that ends a run that nobody started in time.
pub(crate) const QUEUE_DEADLINE: &str = "run_queue_deadline";

/// The place of a run in its class: one step of priority counts like a minute of waiting.
pub(crate) fn rank(queued: Timestamp, priority: i64) -> i64 {
    queued.as_millis().saturating_sub(priority.saturating_mul(60_000))
}

/// Makes the run ready that is next in a session, and no other.
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

/// Sets when a queued run may be claimed. The caller stores the row and then calls [`refresh`].
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

/// Lets a run that was held begin as soon as it is its turn, and starts the clock that ends it if nobody begins it in time.
/// `before` is of the same call, so it has the same agent.
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

/// Until when a run must have begun that is let go now. `before` is of the same call, so it has the same agent.
fn deadline_after(tx: &mut Tx<'_>, before: &RunRow) -> Result<Option<Timestamp>, EngineError> {
    // What the one before had no time limit for, this one has none for either.
    let patience = match before.queue_deadline {
        Some(_) => patience(tx, before)?,
        None => None,
    };
    Ok(patience.map(|patience| tx.now().after(patience)))
}

/// How long a run may wait for a worker, as its agent's profile says.
fn patience(tx: &mut Tx<'_>, run: &RunRow) -> Result<Option<Duration>, EngineError> {
    let profile = agent::get(tx, &run.namespace, &run.agent, run.agent_revision)?;
    let profile = profile.map(AgentProfile::read).transpose()?;
    let clocks = profile.map(|profile| Clocks::of(&profile.config)).transpose()?;
    Ok(clocks.and_then(Clocks::queue))
}
