//! How a run came to stand where it stands: the changes of its life, as its log tells them.

use crate::table::work::run_event::{self, RunEventRow};
use crate::table::work::run_snapshot;
use crate::{Store, Tx, load_body};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunStatus;
use provost_core::recovery::OutcomeCode;
use provost_core::{DurableEvent, DurableEventKind, RunId, Timestamp};

use crate::query::QueryError;
use crate::query::event_log::check_run;
use crate::query::page::{PAGE_MAX, Page};

/// The events that change where a run stands.
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

/// The changes of a run's life, and from where it can be taken up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunSnapshots {
    /// The newest changes, oldest first.
    pub changes: Vec<RunChange>,
    /// The states of its machine that are stored, oldest first.
    pub machines: Vec<MachineSnapshot>,
}

/// One change of a run's life.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunChange {
    /// The number of the event.
    pub seq: u64,
    /// Its position in the whole log.
    pub pos: u64,
    /// When.
    pub at: Timestamp,
    /// What happened.
    pub kind: String,
    /// What the world saw of the run afterwards.
    pub status: RunStatus,
    /// The epoch that wrote it.
    pub epoch: u64,
    /// The attempt it belongs to; zero before the first.
    pub attempt_no: u64,
    /// What went wrong, if something did.
    pub error: Option<String>,
    /// More about it, as JSON.
    pub body: Option<String>,
}

/// A stored state of a run's machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MachineSnapshot {
    /// After how many feedings it was taken.
    pub fed: u64,
    /// When.
    pub created: Timestamp,
}

/// The changes of a run's life after the event with a number, in order.
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

/// The newest changes of a run's life.
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

fn snapshots_of(tx: &mut Tx<'_>, run: RunId, limit: u64) -> Result<RunSnapshots, QueryError> {
    let mut rows = run_event::last_of(tx, run, CHANGES, limit)?;
    rows.reverse();
    let changes = changes_of(tx, rows)?;
    let taken = run_snapshot::taken(tx, run, limit)?;
    let machine = |(fed, created)| MachineSnapshot { fed, created };
    Ok(RunSnapshots { changes, machines: taken.into_iter().rev().map(machine).collect() })
}

fn changes_of(tx: &mut Tx<'_>, rows: Vec<RunEventRow>) -> Result<Vec<RunChange>, QueryError> {
    let mut changes: Vec<RunChange> = Vec::with_capacity(rows.len());
    for row in rows {
        let before = changes.last().map(|change| change.status);
        changes.push(change(tx, row, before)?);
    }
    Ok(changes)
}

fn change(
    tx: &mut Tx<'_>,
    row: RunEventRow,
    before: Option<RunStatus>,
) -> Result<RunChange, QueryError> {
    let status = status_after(&row, before);
    let body = load_body(tx, row.body, row.blob.as_deref())?;
    // A body of a newer version may hold words that are unknown here.
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

/// What went wrong, if something did.
fn error(event: &DurableEvent) -> Option<String> {
    match event {
        DurableEvent::Finished(_) | DurableEvent::HandedOver(_) => None,
        _ => event.detail().or(event.code().map(OutcomeCode::as_str)).map(str::to_owned),
    }
}

/// What the world sees of a run after a change. A run that waits or goes back keeps what it was.
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
