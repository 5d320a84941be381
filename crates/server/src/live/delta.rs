//! Live deltas on their way to streams.

use std::sync::{Arc, PoisonError, Weak};

use bytes::Bytes;
use provost_core::{Event, EventKind, RunId};
use provost_engine::{LivePlace, LiveSink};
use provost_store::query::event_log::RunPlace;
use serde::Serialize;

use super::progress::Progress;
use super::registry::Board;
use super::run_cache::RunTopics;
use super::subscriber::{Frame, What};
use crate::sse::encode;

/// Deltas that wait for the task that delivers them.
const QUEUE_MAX: usize = 4096;

/// Deltas that wait to be delivered.
#[derive(Default)]
pub(super) struct DeltaQueue {
    pub(super) deltas: Vec<QueuedDelta>,
    /// Deltas that were dropped because the queue was full.
    pub(super) dropped: u64,
}

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

/// Takes the live events of the engine. It keeps nothing alive.
pub(super) struct DeltaSink(Weak<Board>);

impl DeltaSink {
    pub(super) fn new(board: &Arc<Board>) -> Self {
        Self(Arc::downgrade(board))
    }
}

impl LiveSink for DeltaSink {
    fn wants(&self, run: RunId) -> bool {
        self.0.upgrade().is_some_and(|board| board.may_want(run))
    }

    fn live(&self, from: &LivePlace, number: u64, event: &Event) {
        let Some(board) = self.0.upgrade() else {
            return;
        };
        let topics = topics_of(&board, from);
        if topics.is_stale(from.epoch) {
            return;
        }
        let is_own = event.run_id == from.run;
        let progress =
            if is_own { topics.observe_live(&event.kind) } else { topics.live_progress() };
        if is_also_durable(from.run, event) || !board.wants_live(&topics.topics) {
            return;
        }
        let bytes = delta(from.run, from.epoch, event);
        let what = What::Live { run: from.run, epoch: from.epoch, number };
        let delta = QueuedDelta {
            run: from.run,
            topics,
            epoch: from.epoch,
            progress,
            frame: Arc::new(Frame { bytes, what }),
            needs_preceding_events: needs_preceding_events(&event.kind),
        };
        let mut queue = board.queue.lock().unwrap_or_else(PoisonError::into_inner);
        if queue.deltas.len() < QUEUE_MAX {
            queue.deltas.push(delta);
        } else {
            queue.dropped += 1;
        }
        drop(queue);
        board.wake.notify_one();
    }
}

fn topics_of(board: &Board, from: &LivePlace) -> Arc<RunTopics> {
    let mut runs = board.runs.lock().unwrap_or_else(PoisonError::into_inner);
    runs.get(from.run).unwrap_or_else(|| {
        let LivePlace { namespace, task, session, above, .. } = from.clone();
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
                | EventKind::LimitReached(_)
                | EventKind::Compacted(_)
                | EventKind::OutputRejected { .. }
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
