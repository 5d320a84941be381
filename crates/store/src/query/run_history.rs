//! Status history of a run, derived from its events.

use crate::table::work::run_event::{self, RunEventRow};
use crate::table::work::run_snapshot;
use crate::{Store, Tx, load_text};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunStatus;
use provost_core::recovery::OutcomeCode;
use provost_core::{DurableEvent, DurableEventKind, RunId, Timestamp};

use crate::query::QueryError;
use crate::query::event_log::check_run;
use crate::query::page::{PAGE_MAX, Page};

/// Kinds of events that change the status or the phase of a run.
const CHANGES: &[DurableEventKind] = &[
    DurableEventKind::Accepted,
    DurableEventKind::Forked,
    DurableEventKind::AttemptStarted,
    DurableEventKind::Parked,
    DurableEventKind::Resumed,
    DurableEventKind::Interrupted,
    DurableEventKind::HandedOver,
    DurableEventKind::RetryScheduled,
    DurableEventKind::WorkerLost,
    DurableEventKind::Finished,
    DurableEventKind::Failed,
    DurableEventKind::TimedOut,
    DurableEventKind::Cancelled,
];

/// Status changes of a run, and the snapshots from which it can be restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSnapshots {
    /// The newest status changes, oldest first.
    pub changes: Vec<RunChange>,
    /// The stored snapshots, oldest first.
    pub machines: Vec<MachineSnapshot>,
}

/// A status change of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunChange {
    /// Sequence number of the event.
    pub seq: u64,
    /// Position of the event in the whole log.
    pub pos: u64,
    /// Time of the change.
    pub at: Timestamp,
    /// Kind of the event.
    pub kind: String,
    /// Status of the run after the event.
    pub status: RunStatus,
    /// Epoch that wrote the event.
    pub epoch: u64,
    /// Attempt of the event; 0 before the first attempt.
    pub attempt_no: u64,
    /// Error of the event, if any.
    pub error: Option<String>,
    /// Data of the event, as JSON.
    pub body: Option<String>,
}

/// A stored snapshot of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineSnapshot {
    /// Number of the last journal entry that the snapshot contains.
    pub entry_no: u64,
    /// Time of creation.
    pub created: Timestamp,
}

/// Returns the status changes of a run after the event with the sequence number `after`, in order. Fails if the run
/// does not exist.
pub async fn changes(
    store: &Store,
    namespace: &Namespace,
    run: RunId,
    after: u64,
    limit: u64,
) -> Result<Page<RunChange, u64>, QueryError> {
    let (namespace, limit) = (namespace.clone(), limit.clamp(1, PAGE_MAX));
    let read = store.read(move |tx| {
        check_run(tx, &namespace, run)?;
        let rows = run_event::after_of(tx, run, CHANGES, after, limit)?;
        changes_of(tx, rows)
    });
    Ok(Page::new(read.await?, limit, |change| change.seq))
}

/// Returns the newest status changes and the snapshots of a run. Fails if the run does not exist.
pub async fn snapshots(
    store: &Store,
    namespace: &Namespace,
    run: RunId,
    limit: u64,
) -> Result<RunSnapshots, QueryError> {
    let (namespace, limit) = (namespace.clone(), limit.clamp(1, PAGE_MAX));
    let read = store.read(move |tx| {
        check_run(tx, &namespace, run)?;
        snapshots_of(tx, run, limit)
    });
    read.await
}

/// Reads the newest status changes and snapshots, each in ascending order.
fn snapshots_of(tx: &mut Tx<'_>, run: RunId, limit: u64) -> Result<RunSnapshots, QueryError> {
    let mut rows = run_event::last_of(tx, run, CHANGES, limit)?;
    rows.reverse();
    let changes = changes_of(tx, rows)?;
    let stored = run_snapshot::list(tx, run, limit)?;
    let machine = |(entry_no, created)| MachineSnapshot { entry_no, created };
    Ok(RunSnapshots { changes, machines: stored.into_iter().rev().map(machine).collect() })
}

/// Converts events into status changes, in the same order.
fn changes_of(tx: &mut Tx<'_>, rows: Vec<RunEventRow>) -> Result<Vec<RunChange>, QueryError> {
    let mut changes: Vec<RunChange> = Vec::with_capacity(rows.len());
    for row in rows {
        let before = changes.last().map(|change| change.status);
        changes.push(change(tx, row, before)?);
    }
    Ok(changes)
}

/// Converts an event into a status change. `before` is the status of the previous change.
fn change(
    tx: &mut Tx<'_>,
    row: RunEventRow,
    before: Option<RunStatus>,
) -> Result<RunChange, QueryError> {
    let status = status_after(&row, before);
    let body = load_text(tx, row.body, row.blob.as_deref())?;
    // A newer program may have written a body that this version cannot parse.
    let event = body.as_deref().and_then(|body| DurableEvent::parse(&row.kind, body).ok());
    let error = event.as_ref().and_then(error);
    Ok(RunChange {
        seq: row.seq,
        pos: row.pos.get(),
        at: row.at,
        kind: row.kind,
        status,
        epoch: row.epoch,
        attempt_no: row.attempt_no,
        error,
        body,
    })
}

/// Returns the error that an event reports. `None` if it reports none.
fn error(event: &DurableEvent) -> Option<String> {
    match event {
        DurableEvent::Finished(_) | DurableEvent::HandedOver(_) => None,
        _ => event.detail().or(event.code().map(OutcomeCode::as_str)).map(str::to_owned),
    }
}

/// Returns the status of a run after an event. Parking and requeueing do not change the status.
fn status_after(row: &RunEventRow, before: Option<RunStatus>) -> RunStatus {
    use DurableEventKind::{Accepted, AttemptStarted, Forked, Interrupted};
    let kind = DurableEventKind::from_name(&row.kind);
    match kind {
        Some(Accepted | Forked | Interrupted) => RunStatus::Accepted,
        Some(AttemptStarted) => RunStatus::Running,
        _ => kind.and_then(DurableEventKind::end_status).or(before).unwrap_or({
            if row.attempt_no == 0 { RunStatus::Accepted } else { RunStatus::Running }
        }),
    }
}
