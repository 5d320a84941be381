//! Live pieces on their way to viewers.

use std::sync::{Arc, PoisonError, Weak};

use bytes::Bytes;
use provost_core::{Event, EventKind, RunId};
use provost_engine::{LivePlace, LiveSink, RunPlace};
use serde::Serialize;

use super::registry::Board;
use super::run_cache::Placed;
use super::subscriber::{Frame, What};
use crate::sse::encode;

/// Pieces that wait for the task that hands them out.
const WAITING_MAX: usize = 4096;

/// Pieces that wait to be handed out.
#[derive(Default)]
pub(super) struct Waiting {
    pub(super) pieces: Vec<Piece>,
    /// Pieces for which there was no place.
    pub(super) lost: u64,
}

/// One piece, ready to be sent.
pub(super) struct Piece {
    pub(super) placed: Arc<Placed>,
    pub(super) run: RunId,
    pub(super) epoch: u64,
    /// How far the run was.
    pub(super) stage: u64,
    pub(super) frame: Arc<Frame>,
    /// True if durable events may have come right before it: they go first.
    pub(super) follows: bool,
    /// When it was gathered: whatever was committed before it is read by then.
    pub(super) round: u64,
}

/// Takes the engine's live events. It holds nothing alive.
pub(super) struct Sink(Weak<Board>);

impl Sink {
    pub(super) fn new(board: &Arc<Board>) -> Self {
        Self(Arc::downgrade(board))
    }
}

impl LiveSink for Sink {
    fn wants(&self, run: RunId) -> bool {
        self.0.upgrade().is_some_and(|board| board.may_want(run))
    }

    fn live(&self, from: &LivePlace, number: u64, event: &Event) {
        let Some(board) = self.0.upgrade() else { return };
        let placed = placed(&board, from);
        if placed.is_stale(from.epoch) {
            return;
        }
        let own = event.run_id == from.run;
        let stage = placed.stage(if own { &event.kind } else { &EventKind::Unknown });
        if has_durable_form(from.run, event) || !board.wants_live(&placed.topics) {
            return;
        }
        let bytes = piece(from.run, from.epoch, event);
        let what = What::Live { run: from.run, epoch: from.epoch, number };
        let frame = Arc::new(Frame { bytes, what });
        let follows = follows(&event.kind);
        let piece =
            Piece { placed, run: from.run, epoch: from.epoch, stage, frame, follows, round: 0 };
        let mut waiting = board.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if waiting.pieces.len() < WAITING_MAX {
            waiting.pieces.push(piece);
        } else {
            waiting.lost += 1;
        }
        drop(waiting);
        board.wake.notify_one();
    }
}

fn placed(board: &Board, from: &LivePlace) -> Arc<Placed> {
    let mut places = board.places.lock().unwrap_or_else(PoisonError::into_inner);
    places.get(from.run).unwrap_or_else(|| {
        let LivePlace { namespace, task, session, above, .. } = from.clone();
        let place = RunPlace { namespace, task, session, above };
        places.put(from.run, &place)
    })
}

/// True if a durable event says the same, and all of it: then it is not sent twice.
pub(crate) fn has_durable_form(run: RunId, event: &Event) -> bool {
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

/// False for what only goes on: no durable event comes between the pieces of one answer.
fn follows(kind: &EventKind) -> bool {
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
struct Said<'a> {
    run: RunId,
    epoch: u64,
    #[serde(flatten)]
    event: &'a Event,
}

/// Encodes a live event as it is sent.
pub(crate) fn piece(run: RunId, epoch: u64, event: &Event) -> Bytes {
    encode::unnumbered("delta", &Said { run, epoch, event })
}
