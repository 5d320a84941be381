//! How long what is over is kept. Nothing that lives is ever removed, nor anything that something living needs.
//!
//! What was said stays as long as its session: the messages of a conversation outlive the runs that made them.

use std::time::Duration;

use provost_core::{MessageId, TaskId, Timestamp};
use provost_failpoint::failpoint;
use provost_store::query::retention;
use provost_store::table::governance::{audit, idempotency, usage_record};
use provost_store::table::scheduling::process_start;
use provost_store::table::work::{message as message_row, run, task};
use provost_store::{Body, Tx};

use crate::engine::Shared;
use crate::error::EngineError;
use crate::maintenance::Maintenance;
use provost_store::table::work::stored_message as message;

const DAY: Duration = Duration::from_secs(24 * 3600);
/// Rows of one round; a task is one.
const BATCH: u64 = 100;
/// How long nodes that ended, and messages that nothing names, are kept.
const REMNANTS: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long what is over is kept; `None` keeps it for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Tasks and runs with their steps, after the end of the task.
    pub runs: Option<Duration>,
    /// The events of runs, after their end; the last one stays with its run.
    pub events: Option<Duration>,
    /// Questions, after they were settled and their run has ended.
    pub approvals: Option<Duration>,
    /// Records of who did what and of what was used.
    pub records: Option<Duration>,
}

impl Default for Retention {
    fn default() -> Self {
        Self {
            runs: Some(90 * DAY),
            events: Some(30 * DAY),
            approvals: Some(30 * DAY),
            records: Some(90 * DAY),
        }
    }
}

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Removed {
    /// Tasks, with their runs.
    pub tasks: u64,
    /// Events of runs that stay.
    pub events: u64,
    /// Questions.
    pub approvals: u64,
    /// Records of who did what and of what was used.
    pub records: u64,
    /// Answers under callers' keys.
    pub keys: u64,
    /// Messages that nothing named any more.
    pub messages: u64,
}

impl Maintenance<'_> {
    /// Removes everything whose time is over. A worker does it by itself now and then.
    pub async fn remove_old(self) -> Result<Removed, EngineError> {
        remove_old(&self.engine.shared).await
    }
}

pub(crate) async fn keep_up(shared: &Shared) -> Result<(), EngineError> {
    let removed = remove_old(shared).await?;
    if removed != Removed::default() {
        tracing::info!(?removed, "what was old is removed");
    }
    Ok(())
}

async fn remove_old(shared: &Shared) -> Result<Removed, EngineError> {
    let Retention { runs, events, approvals, records } = shared.options.retention;
    let mut removed = Removed::default();
    if let Some(kept) = runs {
        removed.tasks = remove_tasks(shared, kept).await?;
    }
    if let Some(kept) = events {
        removed.events = remove_events(shared, kept).await?;
    }
    if let Some(kept) = approvals {
        let batch = |tx: &mut Tx<'_>, before: Timestamp| {
            Ok(retention::remove_approvals(tx, before, BATCH)?)
        };
        removed.approvals = in_batches(shared, kept, batch).await?;
    }
    if let Some(kept) = records {
        let audited = |tx: &mut Tx<'_>, before| Ok(audit::remove_before(tx, before, BATCH)?);
        let metered = |tx: &mut Tx<'_>, before| Ok(usage_record::remove_before(tx, before, BATCH)?);
        removed.records = in_batches(shared, kept, audited).await?;
        removed.records += in_batches(shared, kept, metered).await?;
    }
    let expired = |tx: &mut Tx<'_>, _: Timestamp| Ok(idempotency::expire(tx, BATCH)?);
    removed.keys = in_batches(shared, Duration::ZERO, expired).await?;
    removed.messages = remove_messages(shared).await?;
    let remnants = shared.store.write(|tx| {
        let before = tx.now().before(REMNANTS);
        process_start::forget(tx, before)?;
        retention::remove_workers(tx, before)?;
        Ok::<_, EngineError>(())
    });
    remnants.await?;
    Ok(removed)
}

/// Removes a batch after the other, each in a transaction of its own, so that nobody waits long.
async fn in_batches(
    shared: &Shared,
    kept: Duration,
    remove: impl Fn(&mut Tx<'_>, Timestamp) -> Result<u64, EngineError> + Copy + Send + 'static,
) -> Result<u64, EngineError> {
    let mut total = 0;
    loop {
        let gone = shared.store.write(move |tx| remove(tx, tx.now().before(kept))).await?;
        total += gone;
        if gone < BATCH {
            return Ok(total);
        }
    }
}

async fn remove_tasks(shared: &Shared, kept: Duration) -> Result<u64, EngineError> {
    let mut removed = 0;
    let mut after: Option<TaskId> = None;
    loop {
        let found = shared.store.read(move |tx| {
            let before = tx.now().before(kept);
            Ok::<_, EngineError>(retention::removable_tasks(tx, before, after, BATCH)?)
        });
        let found = found.await?;
        let Some(last) = found.last() else { return Ok(removed) };
        after = Some(*last);
        for id in found {
            failpoint!("retention.before_task");
            removed += shared.store.write(move |tx| remove_task(tx, id, kept)).await?;
        }
    }
}

/// Removes one task, if it still is what it was found to be.
fn remove_task(tx: &mut Tx<'_>, id: TaskId, kept: Duration) -> Result<u64, EngineError> {
    let before = tx.now().before(kept);
    let Some(row) = task::get(tx, id)? else { return Ok(0) };
    if !retention::is_removable(tx, id, before)? || retention::is_forked(tx, id)? {
        return Ok(0);
    }
    for run in run::of_task(tx, id)? {
        for message in retention::session_messages(tx, run.session(), run.id)? {
            keep_message(tx, message)?;
        }
    }
    for run in run::of_task(tx, id)? {
        retention::remove_run(tx, run.id)?;
    }
    retention::remove_task(tx, &row.namespace, id)?;
    failpoint!("retention.before_commit");
    Ok(1)
}

/// A message of a session may name results that are in the steps of its run: it gets them itself before those go.
fn keep_message(tx: &mut Tx<'_>, id: MessageId) -> Result<(), EngineError> {
    let Some(text) = message_row::text(tx, id)? else { return Ok(()) };
    if !message::names_results(&text) {
        return Ok(());
    }
    let whole = message::read(tx, &text)?;
    retention::rewrite_message(tx, id, &Body::new(serde_json::to_string(&*whole)?)?)?;
    Ok(())
}

async fn remove_events(shared: &Shared, kept: Duration) -> Result<u64, EngineError> {
    let mut removed = 0;
    loop {
        let found = shared.store.read(move |tx| {
            let before = tx.now().before(kept);
            Ok::<_, EngineError>(retention::runs_with_events(tx, before, BATCH)?)
        });
        let found = found.await?;
        let full = found.len() as u64 == BATCH;
        for id in found {
            let gone = shared
                .store
                .write(move |tx| Ok::<_, EngineError>(retention::remove_events(tx, id)?));
            removed += gone.await?;
        }
        if !full {
            return Ok(removed);
        }
    }
}

async fn remove_messages(shared: &Shared) -> Result<u64, EngineError> {
    let found = shared.store.read(|tx| {
        let before = tx.now().before(REMNANTS);
        Ok::<_, EngineError>(retention::unnamed_messages(tx, before, 10 * BATCH)?)
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
