//! Retention: removes ended work after its retention period. Active work and its dependencies are never removed.
//!
//! Session messages stay as long as their session, even after their runs are removed.

use std::time::Duration;

use provost_core::{MessageId, TaskId, Timestamp};
use provost_failpoint::failpoint;
use provost_store::query::retention;
use provost_store::table::governance::{audit, idempotency, usage_record};
use provost_store::table::scheduling::process_start;
use provost_store::table::work::{message as message_row, run, task};
use provost_store::{StoredText, Tx};

use crate::engine::EngineInner;
use crate::error::EngineError;
use crate::maintenance::Maintenance;
use provost_store::table::work::stored_message as message;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Rows per batch; a task counts as one.
const BATCH: u64 = 100;
/// Retention of stopped workers and of unreferenced messages.
const REMNANT_RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);

/// Retention periods of ended work. `None` keeps it forever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetentionPolicy {
    /// Tasks with their runs and steps, counted from the end of the task. Default: 90 days.
    pub runs: Option<Duration>,
    /// Events of runs, counted from the end of the run; the last event stays with its run. Default: 30 days.
    pub events: Option<Duration>,
    /// Approvals, counted from their settlement and the end of their run. Default: 30 days.
    pub approvals: Option<Duration>,
    /// Audit and usage records. Default: 90 days.
    pub records: Option<Duration>,
}

impl Default for RetentionPolicy {
    fn default() -> Self {
        Self {
            runs: Some(90 * DAY),
            events: Some(30 * DAY),
            approvals: Some(30 * DAY),
            records: Some(90 * DAY),
        }
    }
}

/// Numbers of removed rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RetentionReport {
    /// Tasks, with their runs.
    pub tasks: u64,
    /// Events of runs that stay.
    pub events: u64,
    /// Approvals.
    pub approvals: u64,
    /// Audit and usage records.
    pub records: u64,
    /// Stored responses for idempotency keys.
    pub keys: u64,
    /// Unreferenced messages.
    pub messages: u64,
}

impl Maintenance<'_> {
    /// Removes all rows whose retention period has passed. A worker does it periodically.
    pub async fn enforce_retention(self) -> Result<RetentionReport, EngineError> {
        enforce_retention(&self.engine.inner).await
    }
}

/// Removes all rows whose retention period has passed, and logs their numbers.
pub(crate) async fn run_retention(shared: &EngineInner) -> Result<(), EngineError> {
    let removed = enforce_retention(shared).await?;
    if removed != RetentionReport::default() {
        tracing::info!(?removed, "old rows were removed");
    }
    Ok(())
}

/// Removes all rows whose retention period has passed. Returns their numbers.
async fn enforce_retention(shared: &EngineInner) -> Result<RetentionReport, EngineError> {
    let RetentionPolicy { runs, events, approvals, records } = shared.options.retention;
    let mut removed = RetentionReport::default();
    if let Some(period) = runs {
        removed.tasks = remove_tasks(shared, period).await?;
    }
    if let Some(period) = events {
        removed.events = remove_events(shared, period).await?;
    }
    if let Some(period) = approvals {
        let batch = |tx: &mut Tx<'_>, before: Timestamp| {
            Ok(retention::remove_approvals(tx, before, BATCH)?)
        };
        removed.approvals = in_batches(shared, period, batch).await?;
    }
    if let Some(period) = records {
        let audited = |tx: &mut Tx<'_>, before| Ok(audit::remove_before(tx, before, BATCH)?);
        let metered = |tx: &mut Tx<'_>, before| Ok(usage_record::remove_before(tx, before, BATCH)?);
        removed.records = in_batches(shared, period, audited).await?;
        removed.records += in_batches(shared, period, metered).await?;
    }
    let expired = |tx: &mut Tx<'_>, _: Timestamp| Ok(idempotency::expire(tx, BATCH)?);
    removed.keys = in_batches(shared, Duration::ZERO, expired).await?;
    removed.messages = remove_messages(shared).await?;
    let remnants = shared.store.write(|tx| {
        let before = tx.now().before(REMNANT_RETENTION);
        process_start::forget(tx, before)?;
        retention::remove_workers(tx, before)?;
        Ok::<_, EngineError>(())
    });
    remnants.await?;
    Ok(removed)
}

/// Removes rows in batches, each in a transaction of its own, so that other writers do not wait long.
async fn in_batches(
    shared: &EngineInner,
    period: Duration,
    remove: impl Fn(&mut Tx<'_>, Timestamp) -> Result<u64, EngineError> + Copy + Send + 'static,
) -> Result<u64, EngineError> {
    let mut total = 0;
    loop {
        let count = shared.store.write(move |tx| remove(tx, tx.now().before(period))).await?;
        total += count;
        if count < BATCH {
            return Ok(total);
        }
    }
}

/// Removes the tasks that ended before the period, each in a transaction of its own. Returns their number.
async fn remove_tasks(shared: &EngineInner, period: Duration) -> Result<u64, EngineError> {
    let mut removed = 0;
    let mut after: Option<TaskId> = None;
    loop {
        let found = shared.store.read(move |tx| {
            let before = tx.now().before(period);
            Ok::<_, EngineError>(retention::removable_tasks(tx, before, after, BATCH)?)
        });
        let found = found.await?;
        let Some(last) = found.last() else { return Ok(removed) };
        after = Some(*last);
        for id in found {
            failpoint!("retention.before_task");
            removed += shared.store.write(move |tx| remove_task(tx, id, period)).await?;
        }
    }
}

/// Removes a task with its runs. Returns 1, or 0 if the task is not removable any more.
fn remove_task(tx: &mut Tx<'_>, id: TaskId, period: Duration) -> Result<u64, EngineError> {
    let before = tx.now().before(period);
    let Some(row) = task::get(tx, id)? else { return Ok(0) };
    if !retention::is_removable(tx, id, before)? || retention::is_forked(tx, id)? {
        return Ok(0);
    }
    for run in run::of_task(tx, id)? {
        for message in retention::session_messages(tx, run.session(), run.id)? {
            inline_tool_results(tx, message)?;
        }
    }
    for run in run::of_task(tx, id)? {
        retention::remove_run(tx, run.id)?;
    }
    retention::remove_task(tx, &row.namespace, id)?;
    failpoint!("retention.before_commit");
    Ok(1)
}

/// Stores tool results in a session message that refers to steps of its run, before those steps are removed.
fn inline_tool_results(tx: &mut Tx<'_>, id: MessageId) -> Result<(), EngineError> {
    let Some(text) = message_row::text(tx, id)? else { return Ok(()) };
    if !message::names_results(&text) {
        return Ok(());
    }
    let whole = message::read(tx, &text)?;
    retention::rewrite_message(tx, id, &StoredText::new(serde_json::to_string(&*whole)?)?)?;
    Ok(())
}

/// Removes the events of runs that ended before the period, except the last one of each. Returns their number.
async fn remove_events(shared: &EngineInner, period: Duration) -> Result<u64, EngineError> {
    let mut removed = 0;
    loop {
        let found = shared.store.read(move |tx| {
            let before = tx.now().before(period);
            Ok::<_, EngineError>(retention::runs_with_events(tx, before, BATCH)?)
        });
        let found = found.await?;
        let full = found.len() as u64 == BATCH;
        for id in found {
            let count = shared
                .store
                .write(move |tx| Ok::<_, EngineError>(retention::remove_events(tx, id)?));
            removed += count.await?;
        }
        if !full {
            return Ok(removed);
        }
    }
}

/// Removes a batch of messages to which no row refers. Returns their number.
async fn remove_messages(shared: &EngineInner) -> Result<u64, EngineError> {
    let found = shared.store.read(|tx| {
        let before = tx.now().before(REMNANT_RETENTION);
        Ok::<_, EngineError>(retention::unreferenced_messages(tx, before, 10 * BATCH)?)
    });
    let found = found.await?;
    let count = found.len() as u64;
    let removed = shared.store.write(move |tx| {
        for id in &found {
            retention::remove_message(tx, *id)?;
        }
        Ok::<_, EngineError>(count)
    });
    removed.await
}
