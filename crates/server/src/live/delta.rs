//! Live deltas on their way to streams.

use std::sync::{Arc, PoisonError};

use bytes::Bytes;
use provost_bus::{LiveEvent, RunAddress};
use provost_core::{Event, EventKind, RunId};
use provost_store::query::event_log::RunPlace;
use serde::Serialize;

use super::progress::Progress;
use super::registry::Board;
use super::run_cache::RunTopics;
use super::subscriber::{Frame, What};
use crate::sse::encode;

/// One delta, ready to be sent.
pub(super) struct QueuedDelta {
    pub(super) run: RunId,
    pub(super) topics: Arc<RunTopics>,
    pub(super) epoch: u64,
    /// How far the run was.
    pub(super) progress: Progress,
    pub(super) frame: Arc<Frame>,
    /// True if durable events may have come right before it. They are delivered first.
    pub(super) needs_preceding_events: bool,
}

impl QueuedDelta {
    /// The delta of a live event, if a stream wants it.
    pub(super) fn of(board: &Board, live: &LiveEvent) -> Option<Self> {
        let LiveEvent { place, number, event } = live;
        if !board.may_want(place.run) {
            return None;
        }
        let topics = topics_of(board, place);
        if topics.is_stale(place.epoch) {
            return None;
        }
        let is_own = event.run_id == place.run;
        let progress =
            if is_own { topics.observe_live(&event.kind) } else { topics.live_progress() };
        if is_also_durable(place.run, event) || !board.wants_live(&topics.topics) {
            return None;
        }
        let bytes = delta(place.run, place.epoch, event);
        let what = What::Live { run: place.run, epoch: place.epoch, number: *number };
        Some(Self {
            run: place.run,
            topics,
            epoch: place.epoch,
            progress,
            frame: Arc::new(Frame { bytes, what }),
            needs_preceding_events: needs_preceding_events(&event.kind),
        })
    }
}

fn topics_of(board: &Board, from: &RunAddress) -> Arc<RunTopics> {
    let mut runs = board.runs.lock().unwrap_or_else(PoisonError::into_inner);
    runs.get(from.run).unwrap_or_else(|| {
        let RunAddress { namespace, task, session, above, .. } = from.clone();
        let place = RunPlace { namespace, task, session, above };
        runs.put(from.run, &place)
    })
}

/// True if a durable event holds all of it: then it is not sent twice.
pub(crate) fn is_also_durable(run: RunId, event: &Event) -> bool {
    // What happens inside of a tool, in an agent below, is in no log of its own.
    event.run_id == run
        && matches!(
            event.kind,
            EventKind::RunStarted { .. }
                | EventKind::UserMessage { .. }
                | EventKind::TurnFinished { .. }
                | EventKind::ToolFinished { .. }
                | EventKind::ApprovalNeeded { .. }
                | EventKind::ApprovalDecided { .. }
                | EventKind::StateChanged { .. }
                | EventKind::WorkspaceReset { .. }
                | EventKind::Finished { .. }
                | EventKind::Suspended { .. }
                | EventKind::Failed { .. }
                | EventKind::Denied { .. }
                | EventKind::Cancelled
        )
}

/// False for a delta that continues another one: no durable event comes between the deltas of one answer.
fn needs_preceding_events(kind: &EventKind) -> bool {
    !matches!(
        kind,
        EventKind::TextDelta { .. }
            | EventKind::ReasoningDelta { .. }
            | EventKind::ToolCallStarted { .. }
            | EventKind::ToolCallDelta { .. }
            | EventKind::ToolProgress { .. }
    )
}

/// A [`Delta`](provost_api::Delta) of a borrowed event.
#[derive(Serialize)]
struct DeltaJson<'a> {
    run: RunId,
    epoch: u64,
    #[serde(flatten)]
    event: &'a Event,
}

/// Encodes a live event as it is sent.
pub(crate) fn delta(run: RunId, epoch: u64, event: &Event) -> Bytes {
    encode::unnumbered("delta", &DeltaJson { run, epoch, event })
}
