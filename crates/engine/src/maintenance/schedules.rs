//! Firing of schedules: a due schedule advances and submits its tasks in one transaction.

use std::sync::Arc;
use std::time::Duration;

use provost_bus::{Subscription, Topic, Wakeup};
use provost_core::command::TaskRequest;
use provost_core::recovery::OutcomeCode;
use provost_core::scheduling::{MissedRunPolicy, OverlapPolicy};
use provost_core::{TaskId, Timestamp};
use provost_failpoint::failpoint;
use provost_store::Tx;
use provost_store::table::scheduling::schedule::{self, ScheduleRow};
use provost_store::table::work::{run, task};

use crate::engine::EngineInner;
use crate::error::EngineError;
use crate::run::cancel;
use crate::submit::schedule::schedule_times;
use crate::submit::{self, SubmitRequest};

/// Schedules per query.
const BATCH: u64 = 100;
/// Polls without a due schedule before the database is queried again.
const POLLS_MAX: usize = 30;
/// Delay after which [`MissedRunPolicy::Skip`] skips a missed time.
const GRACE: Duration = Duration::from_secs(60);

/// Times at which a due schedule submits tasks now, and its next time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct FirePlan {
    /// Times that fire, oldest first.
    times: Vec<Timestamp>,
    next_at: Option<Timestamp>,
}

/// Fires due schedules until the process ends.
pub(crate) async fn run(shared: Arc<EngineInner>) {
    let mut changed = shared.store.bus().subscribe(Topic::Wakeup(Wakeup::Schedule));
    loop {
        let next = match fire_due(&shared).await {
            Ok(next) => next,
            Err(error) => {
                tracing::warn!(%error, "due schedules could not be fired");
                Some(shared.env.now())
            }
        };
        wait_for_next(&shared, &mut changed, next).await;
    }
}

/// Waits until a schedule may be due. The clock of the database decides what is due; the local clock may differ, and
/// another process may change a schedule, so the wait is bounded.
async fn wait_for_next(shared: &EngineInner, changed: &mut Subscription, next: Option<Timestamp>) {
    for _ in 0..POLLS_MAX {
        tokio::select! {
            () = changed.woken(|_| true) => return,
            () = tokio::time::sleep(shared.options.poll) => {}
        }
        if next.is_some_and(|next| next <= shared.env.now()) {
            return;
        }
    }
}

/// Fires due schedules. Returns the next due time.
async fn fire_due(shared: &EngineInner) -> Result<Option<Timestamp>, EngineError> {
    let due = shared.store.read(|tx| Ok::<_, EngineError>((schedule::due(tx, BATCH)?, tx.now())));
    let (rows, now) = due.await?;
    for row in rows {
        failpoint!("schedule.due");
        let row = Arc::new(row);
        let fired = match plan(&row, now) {
            Ok(plan) => {
                let due = Arc::clone(&row);
                shared.store.write(move |tx| fire(tx, &due, &plan)).await
            }
            Err(error) => Err(error),
        };
        failpoint!("schedule.fired");
        match fired {
            Err(error @ EngineError::Store(_)) => return Err(error),
            // An invalid task request must not block the schedule from its next time.
            Err(error) => skip_with_error(shared, &row, now, &error).await?,
            Ok(_) => {}
        }
    }
    shared.store.read(|tx| Ok::<_, EngineError>(schedule::next_due(tx)?)).await
}

/// Returns the due times of a schedule that are not skipped, and the time after them.
fn plan(row: &ScheduleRow, now: Timestamp) -> Result<FirePlan, EngineError> {
    let times = schedule_times(row)?;
    let Some(first) = row.next_at.map(|next| times.tick_of(next)) else {
        return Ok(FirePlan { times: Vec::new(), next_at: None });
    };
    let until = times.tick_of(now);
    let due = match row.catch_up {
        MissedRunPolicy::All { max } => times.latest(first, until, max as usize),
        MissedRunPolicy::One => times.latest(first, until, 1),
        MissedRunPolicy::Skip => {
            let mut latest = times.latest(first, until, 1);
            latest.retain(|tick| until.since(*tick) <= GRACE);
            latest
        }
    };
    let next_at = times.next_after(until).map(|tick| times.delayed(tick));
    Ok(FirePlan { times: due, next_at })
}

/// Advances the schedule and submits the tasks of its due times. Returns `false` if another process did it.
fn fire(tx: &mut Tx<'_>, row: &ScheduleRow, plan: &FirePlan) -> Result<bool, EngineError> {
    if !schedule::advance(tx, row, plan.next_at)? {
        return Ok(false);
    }
    let namespace = row.namespace()?;
    let overlap = row.overlap;
    let mut last = row.last_task_id;
    let mut submitted = None;
    for tick in &plan.times {
        if let Some(busy) = unfinished(tx, last)? {
            match overlap {
                OverlapPolicy::Skip => continue,
                OverlapPolicy::CancelPrevious => cancel_task(tx, busy)?,
                OverlapPolicy::Allow | OverlapPolicy::Queue => {}
            }
        }
        let command = command_of(row, overlap, *tick)?;
        let request = SubmitRequest::new(&namespace, command, tx.now())?;
        let accepted = submit::submit_in_tx(tx, &request)?;
        last = Some(accepted.task);
        submitted = last;
    }
    schedule::fired(tx, row, submitted, None)?;
    failpoint!("schedule.before_commit");
    Ok(true)
}

/// Returns the task request for one due time.
fn command_of(
    row: &ScheduleRow,
    overlap: OverlapPolicy,
    tick: Timestamp,
) -> Result<TaskRequest, EngineError> {
    let mut command: TaskRequest = serde_json::from_str(&row.command)?;
    command.idempotency_key = Some(format!("schedule:{}:{}", row.id, tick.as_millis()));
    command.spawned_by.get_or_insert_with(|| format!("schedule:{}", row.id));
    if overlap == OverlapPolicy::Queue
        && command.session_id.is_none()
        && command.session_key.is_none()
    {
        command.session_id = Some(format!("schedule-{}", row.id).parse()?);
        command.new_task = true;
    }
    Ok(command)
}

/// Returns the task if it has not ended, otherwise `None`.
fn unfinished(tx: &mut Tx<'_>, task: Option<TaskId>) -> Result<Option<TaskId>, EngineError> {
    let Some(id) = task else { return Ok(None) };
    let Some(row) = task::get(tx, id)? else { return Ok(None) };
    Ok((!row.state.is_terminal()).then_some(id))
}

/// Cancels the current run of a task.
fn cancel_task(tx: &mut Tx<'_>, id: TaskId) -> Result<(), EngineError> {
    let current = task::get(tx, id)?.and_then(|task| task.current_run_id);
    if let Some(row) = current.map(|id| run::lock(tx, id)).transpose()?.flatten() {
        cancel::cancel(tx, row, OutcomeCode::CancelledByInterrupt)?;
    }
    Ok(())
}

/// Advances a schedule without submitting a task, and stores the error.
async fn skip_with_error(
    shared: &EngineInner,
    row: &Arc<ScheduleRow>,
    now: Timestamp,
    error: &EngineError,
) -> Result<(), EngineError> {
    tracing::warn!(schedule = %row.id, %error, "a schedule could not submit its task");
    let next_at = plan(row, now).map_or(None, |plan| plan.next_at);
    let (row, reason) = (Arc::clone(row), error.to_string());
    let written = shared.store.write(move |tx| {
        if schedule::advance(tx, &row, next_at)? {
            schedule::fired(tx, &row, None, Some(&reason))?;
        }
        Ok::<_, EngineError>(())
    });
    written.await
}
