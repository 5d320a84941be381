//! Snapshot of the deltas of the turn in progress, for a client that connects during the turn.

use bytes::Bytes;
use provost_core::{Event, EventKind, RunId};

use super::SnapshotEnd;
use super::source::StreamSource;
use crate::app::App;
use crate::live::{delta, is_also_durable};

/// Deltas of a turn in progress.
pub(super) struct TurnSnapshot {
    run: RunId,
    epoch: u64,
    /// Number of the first delta after the snapshot.
    next: u64,
    events: Vec<Event>,
}

/// Takes a snapshot of the turn in progress. `None` if no worker of this process executes the run.
pub(super) async fn take(app: &App, source: &StreamSource) -> Option<TurnSnapshot> {
    let run = Box::pin(source.current_run(app.engine())).await?;
    let provost_engine::UnfinishedTurn { epoch, mut events, next, .. } =
        app.engine().runs().unfinished_turn(source.namespace(), run)?;
    events.retain(|event| !is_also_durable(run, event));
    Some(TurnSnapshot { run, epoch, next, events })
}

impl TurnSnapshot {
    /// Returns true if a durable event already contains the turn. `finished` is the last finished turn.
    pub(super) fn is_committed(&self, finished: Option<(RunId, u32)>) -> bool {
        let started = self.events.iter().rev().find_map(|event| match event.kind {
            EventKind::TurnStarted { turn } if event.run_id == self.run => Some(turn),
            _ => None,
        });
        let finished = finished.filter(|(run, _)| *run == self.run).map(|(_, turn)| turn);
        matches!((finished, started), (Some(finished), Some(started)) if finished >= started)
    }

    /// Encodes the snapshot.
    pub(super) fn bytes(&self) -> Bytes {
        let deltas = self.events.iter().map(|event| delta(self.run, self.epoch, event));
        deltas.collect::<Vec<_>>().concat().into()
    }

    /// Returns the end of the snapshot.
    pub(super) fn end(&self) -> SnapshotEnd {
        SnapshotEnd { run: self.run, epoch: self.epoch, next: self.next }
    }
}
