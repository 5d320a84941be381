//! Timers: the action of a timer runs in the transaction that removes the timer.

use std::time::Duration;

use provost_bus::{Topic, Wakeup};
use provost_core::RunId;
use provost_core::recovery::OutcomeCode;
use provost_core::scheduling::TimerKind;
use provost_failpoint::failpoint;
use provost_store::table::scheduling::run_deadline;
use provost_store::table::scheduling::timer::{self, TimerRow};
use provost_store::table::work::run::{self, RunRow};
use provost_store::{Locked, Tx};

use super::BATCH;
use crate::approval;
use crate::child::join;
use crate::engine::EngineInner;
use crate::error::EngineError;
use crate::run::cancel;
use crate::submit::queue;

/// Longest wait between queries for due timers.
const TIMERS: Duration = Duration::from_millis(500);
/// Delay before a failed timer fires again.
const RETRY_DELAY: Duration = Duration::from_secs(30);

/// Fires timers until the worker ends.
pub(super) async fn run_timers(shared: &EngineInner) {
    let mut hints = shared.store.bus().subscribe(Topic::Tasks);
    loop {
        let wait = match fire_due(shared).await {
            Ok(wait) => wait,
            Err(error) => {
                tracing::warn!(%error, "due timers could not be fired");
                TIMERS
            }
        };
        // A new timer may be due earlier than the others.
        hints.woken_or_after(wait, |wakeup| wakeup == Wakeup::Timer).await;
    }
}

/// A due timer or deadline.
#[derive(Debug, Clone)]
enum DueTimer {
    /// A timer.
    Timer(TimerRow),
    /// A run whose deadline has passed.
    Deadline(RunId),
}

impl DueTimer {
    /// Finds due timers, and the time until the next one.
    fn find(tx: &mut Tx<'_>) -> Result<(Vec<Self>, Duration), EngineError> {
        let next = timer::next(tx)?.into_iter().chain(run_deadline::next(tx)?).min();
        let wait = next.map_or(TIMERS, |next| next.since(tx.now()));
        let timers = timer::due(tx, BATCH)?.into_iter().map(Self::Timer);
        let deadlines = run_deadline::exceeded(tx, BATCH)?.into_iter().map(Self::Deadline);
        Ok((timers.chain(deadlines).collect(), wait))
    }

    /// Applies the timer or the deadline.
    fn fire(&self, tx: &mut Tx<'_>) -> Result<(), EngineError> {
        match self {
            Self::Timer(timer) => fire(tx, timer),
            Self::Deadline(run) => {
                time_out(tx, *run)?;
                failpoint!("timer.before_commit");
                Ok(())
            }
        }
    }

    /// Moves a timer that failed, so that it does not block the others.
    fn postpone(&self, tx: &mut Tx<'_>) -> Result<(), EngineError> {
        let at = tx.now().after(RETRY_DELAY);
        match self {
            Self::Timer(timer) => timer::set(tx, timer.kind, &timer.subject, at)?,
            Self::Deadline(run) => run_deadline::postpone(tx, *run, at)?,
        }
        Ok(())
    }
}

/// Applies all due timers. A timer that fails is postponed. Returns the time until the next query.
pub(crate) async fn fire_due(shared: &EngineInner) -> Result<Duration, EngineError> {
    loop {
        let (due, wait) = shared.store.read(DueTimer::find).await?;
        if due.is_empty() {
            return Ok(wait.min(TIMERS).max(Duration::from_millis(1)));
        }
        // One job each, so that a failing timer does not block the others. The jobs share a commit.
        let fired: Vec<_> = due
            .into_iter()
            .map(|due| {
                let job = due.clone();
                (due, shared.store.write(move |tx| job.fire(tx)))
            })
            .collect();
        for (due, fired) in fired {
            if let Err(error) = fired.await {
                tracing::warn!(?due, %error, "a timer failed and will be retried");
                shared.store.write(move |tx| due.postpone(tx)).await?;
            }
        }
    }
}

/// Fires one timer, unless another worker has fired or moved it.
fn fire(tx: &mut Tx<'_>, found: &TimerRow) -> Result<(), EngineError> {
    let now = tx.now();
    let due = timer::get(tx, found.kind, &found.subject)?.filter(|timer| timer.fire_at <= now);
    let Some(timer) = due else { return Ok(()) };
    timer::clear(tx, timer.kind, &timer.subject)?;
    match timer.kind {
        TimerKind::RunDue => {
            if let Some(row) = run::lock(tx, timer.subject_id()?)? {
                queue::refresh(tx, &row.namespace, &row.session_id)?;
            }
        }
        TimerKind::QueueDeadline => time_out_in_queue(tx, timer.subject_id()?)?,
        TimerKind::ChildWait => join::time_out(tx, timer.subject_id()?)?,
        TimerKind::ApprovalExpiry => approval::expire(tx, timer.subject_id()?)?,
    }
    failpoint!("timer.before_commit");
    Ok(())
}

/// Ends a run whose deadline has passed, or signals its worker. Does nothing if the deadline was extended.
fn time_out(tx: &mut Tx<'_>, id: RunId) -> Result<(), EngineError> {
    match run::lock(tx, id)? {
        Some(row) if row.deadline.is_some_and(|deadline| deadline <= tx.now()) => {
            cancel_overdue(tx, row)
        }
        _ => Ok(()),
    }
}

/// Ends a run that was not started before its queue deadline. A started run has no queue deadline.
fn time_out_in_queue(tx: &mut Tx<'_>, id: RunId) -> Result<(), EngineError> {
    match run::lock(tx, id)? {
        Some(row) if row.started.is_none() => cancel_overdue(tx, row),
        _ => Ok(()),
    }
}

/// Cancels a run whose deadline has passed. Does nothing if it has ended.
fn cancel_overdue(tx: &mut Tx<'_>, row: Locked<RunRow>) -> Result<(), EngineError> {
    if !row.state()?.is_terminal() {
        cancel::cancel(tx, row, OutcomeCode::DeadlineExceeded)?;
    }
    Ok(())
}
