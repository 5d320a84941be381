//! Timers: whatever happens at a moment happens in the transaction that takes its timer away.

use std::time::Duration;

use provost_core::work::OutcomeCode;
use provost_core::{ApprovalId, RunId};
use provost_failpoint::failpoint;
use provost_store::row::run;
use provost_store::row::timer::{self, TimerRow};
use provost_store::{Hint, Tx};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::BATCH;
use crate::child::{self, WAIT_OVER};
use crate::end::DEADLINE;
use crate::engine::Shared;
use crate::error::EngineError;
use crate::queue::{self, QUEUE_DEADLINE};
use crate::state::{run_state, word};
use crate::{approval, cancel};

/// How often timers are looked at if nothing tells of one.
const TIMERS: Duration = Duration::from_millis(500);
/// When a timer is tried again that could not be fired.
const AGAIN: Duration = Duration::from_secs(30);

/// Fires timers until the worker ends.
pub(super) async fn keep(shared: &Shared) {
    let mut hints = shared.store.calls();
    loop {
        let wait = match fire_due(shared).await {
            Ok(wait) => wait,
            Err(error) => {
                tracing::warn!(%error, "timers have to wait");
                TIMERS
            }
        };
        // A timer that was just set may be the next one.
        drop(tokio::time::timeout(wait, set(&mut hints)).await);
    }
}

async fn set(hints: &mut Receiver<Hint>) {
    loop {
        match hints.recv().await {
            Ok(Hint::Timer) | Err(RecvError::Lagged(_)) => return,
            Ok(_) => {}
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }
}

/// Fires every timer whose time has come; tells how long there is nothing to do.
pub(crate) async fn fire_due(shared: &Shared) -> Result<Duration, EngineError> {
    loop {
        let found = shared.store.read(|tx| {
            let wait = timer::next(tx)?.map_or(TIMERS, |next| next.since(tx.now()));
            Ok::<_, EngineError>((timer::due(tx, BATCH)?, wait))
        });
        let (due, wait) = found.await?;
        if due.is_empty() {
            return Ok(wait.min(TIMERS).max(Duration::from_millis(1)));
        }
        // One job each: one that cannot be fired must not keep the others from it. They share a commit.
        let fired: Vec<_> = due
            .into_iter()
            .map(|timer| {
                let job = timer.clone();
                (timer, shared.store.write(move |tx| fire(tx, &job)))
            })
            .collect();
        for (timer, fired) in fired {
            if let Err(error) = fired.await {
                tracing::warn!(kind = timer.kind, subject = timer.subject, %error, "a timer has to wait");
                let later = shared.store.write(move |tx| {
                    let at = tx.now().after(AGAIN);
                    timer::set(tx, &timer.kind, &timer.subject, at)?;
                    Ok::<_, EngineError>(())
                });
                later.await?;
            }
        }
    }
}

/// Fires one timer, unless another node was faster or it was moved.
fn fire(tx: &mut Tx<'_>, found: &TimerRow) -> Result<(), EngineError> {
    let now = tx.now();
    let due = timer::get(tx, &found.kind, &found.subject)?.filter(|timer| timer.fire_at <= now);
    let Some(timer) = due else { return Ok(()) };
    timer::clear(tx, &timer.kind, &timer.subject)?;
    match timer.kind.as_str() {
        queue::DUE => {
            if let Some(row) = run::get(tx, word::<RunId>(&timer.subject)?)? {
                queue::refresh(tx, &row.namespace, &row.session_id)?;
            }
        }
        DEADLINE => time_out(tx, word(&timer.subject)?)?,
        QUEUE_DEADLINE => time_out_in_queue(tx, word(&timer.subject)?)?,
        WAIT_OVER => child::wait_is_over(tx, word(&timer.subject)?)?,
        approval::EXPIRY => approval::expire(tx, word::<ApprovalId>(&timer.subject)?)?,
        other => tracing::warn!(kind = other, "a timer of an unknown kind fired"),
    }
    failpoint!("timer.before_commit");
    Ok(())
}

/// The time of a run is over: it ends here, or its worker is told.
fn time_out(tx: &mut Tx<'_>, id: RunId) -> Result<(), EngineError> {
    if let Some(row) = run::get(tx, id)?
        && !run_state(&row)?.is_terminal()
    {
        cancel::cancel(tx, row, OutcomeCode::Deadline)?;
    }
    Ok(())
}

/// A run was not begun in time. One that was begun has no such clock any more.
fn time_out_in_queue(tx: &mut Tx<'_>, id: RunId) -> Result<(), EngineError> {
    match run::get(tx, id)? {
        Some(row) if row.started.is_none() => time_out(tx, id),
        _ => Ok(()),
    }
}
