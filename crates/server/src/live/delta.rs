//! Live deltas.

use std::sync::Arc;

use bytes::Bytes;
use provost_bus::{LiveEvent, RunAddress};
use provost_core::{Event, EventKind, RunId};
use provost_store::query::event_log::RunScope;
use serde::Serialize;

use super::progress::Progress;
use super::registry::SubscriptionRegistry;
use super::run_cache::RunTopics;
use super::subscriber::{Frame, FrameKind};
use crate::sse::encode;

/// An encoded delta.
pub(super) struct QueuedDelta {
    pub(super) run: RunId,
    pub(super) topics: Arc<RunTopics>,
    pub(super) epoch: u64,
    /// Progress of the run at the delta.
    pub(super) progress: Progress,
    pub(super) frame: Arc<Frame>,
    /// True if durable events can directly precede the delta. They are delivered first.
    pub(super) needs_preceding_events: bool,
}

impl QueuedDelta {
    /// Encodes a live event. `None` if no subscriber wants it or if it is stale.
    pub(super) fn encode(registry: &SubscriptionRegistry, live: &LiveEvent) -> Option<Self> {
        let LiveEvent { address: place, number, event } = live;
        if !registry.may_want_deltas(place.run) {
            return None;
        }
        let topics = topics_of(registry, place);
        if topics.is_stale(place.epoch) {
            return None;
        }
        let is_own = event.run_id == place.run;
        let progress =
            if is_own { topics.observe_live(&event.kind) } else { topics.live_progress() };
        if is_also_durable(place.run, event) || !registry.wants_deltas(&topics.topics) {
            return None;
        }
        let bytes = delta(place.run, place.epoch, event);
        let kind = FrameKind::Delta { run: place.run, epoch: place.epoch, number: *number };
        Some(Self {
            run: place.run,
            topics,
            epoch: place.epoch,
            progress,
            frame: Arc::new(Frame { bytes, kind }),
            needs_preceding_events: needs_preceding_events(&event.kind),
        })
    }
}

fn topics_of(registry: &SubscriptionRegistry, from: &RunAddress) -> Arc<RunTopics> {
    let mut runs = registry.runs.lock();
    runs.get(from.run).unwrap_or_else(|| {
        let RunAddress { namespace, task, session, ancestors, .. } = from.clone();
        let scope = RunScope { namespace, task, session, ancestors };
        runs.put(from.run, &scope)
    })
}

/// Returns true if a durable event contains the same information. The delta is then not sent.
pub(crate) fn is_also_durable(run: RunId, event: &Event) -> bool {
    // Events of an agent that runs inside a tool are not in the log.
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

/// Returns false for a delta that continues another one, because no durable event comes between the deltas of one response.
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

/// A [`Delta`](provost_api::Delta) that borrows its event.
#[derive(Serialize)]
struct DeltaJson<'a> {
    run: RunId,
    epoch: u64,
    #[serde(flatten)]
    event: &'a Event,
}

/// Encodes a live event as a server-sent event.
pub(crate) fn delta(run: RunId, epoch: u64, event: &Event) -> Bytes {
    encode::unnumbered("delta", &DeltaJson { run, epoch, event })
}
