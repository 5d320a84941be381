//! The deltas of the turn in progress, for a client that comes in the middle of it.

use bytes::Bytes;
use provost_core::{Event, EventKind, RunId};

use super::SnapshotEnd;
use super::source::Source;
use crate::app::App;
use crate::live::{delta, is_also_durable};

/// The deltas so far.
pub(super) struct TurnSnapshot {
    run: RunId,
    epoch: u64,
    /// The number of the first delta that is not in it.
    next: u64,
    events: Vec<Event>,
}

/// Takes the present snapshot, if a worker of this process executes the run.
pub(super) async fn take(app: &App, source: &Source) -> Option<TurnSnapshot> {
    let run = Box::pin(source.present_run(app.engine())).await?;
    let provost_engine::UnfinishedTurn { epoch, mut events, next, .. } =
        app.engine().runs().unfinished_turn(source.namespace(), run)?;
    events.retain(|event| !is_also_durable(run, event));
    Some(TurnSnapshot { run, epoch, next, events })
}

impl TurnSnapshot {
    /// True if a durable event holds all of it already. `finished` is the newest model call that an event has finished.
    pub(super) fn is_committed(&self, finished: Option<(RunId, u32)>) -> bool {
        let begun = self.events.iter().rev().find_map(|event| match event.kind {
            EventKind::TurnStarted { turn } if event.run_id == self.run => Some(turn),
            _ => None,
        });
        let finished = finished.filter(|(run, _)| *run == self.run).map(|(_, turn)| turn);
        matches!((finished, begun), (Some(finished), Some(begun)) if finished >= begun)
    }

    /// Returns the snapshot as it is sent.
    pub(super) fn bytes(&self) -> Bytes {
        let deltas = self.events.iter().map(|event| delta(self.run, self.epoch, event));
        deltas.collect::<Vec<_>>().concat().into()
    }

    /// Returns which deltas it holds.
    pub(super) fn end(&self) -> SnapshotEnd {
        SnapshotEnd { run: self.run, epoch: self.epoch, next: self.next }
    }
}
