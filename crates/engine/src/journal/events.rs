//! The durable event of a feed. A message or a result is named, not repeated: a reader of the log puts it in.

use std::time::Duration;

use provost_agent::run::Feed;
use provost_core::Money;
use provost_core::durable::{
    ApprovalDecided, ApprovalNeeded, Compacted, DurableEvent, LimitFound, OutputRejected,
    StateChanged, Stopped, ToolFinished, TurnFinished, UserMessage, WaitingStarted,
};

use crate::child::join::is_wait;

/// Where in its run a feed is committed.
pub(super) struct EventPlace {
    /// Number of the model call.
    pub(super) turn: u32,
    /// Step that the feed commits.
    pub(super) step: u64,
    /// Time since this attempt began the tool call of the step.
    pub(super) ran: Option<Duration>,
}

/// The event of a feed, or of the first message of a run; none if the log does not tell of the feed.
pub(super) fn of_feed(feed: Option<&Feed>, place: EventPlace) -> Option<DurableEvent> {
    let EventPlace { turn, step, ran } = place;
    Some(match feed {
        None | Some(Feed::UserSaid { .. }) => DurableEvent::UserMessage(UserMessage {}),
        Some(Feed::ModelAnswered { response, .. }) => {
            let (stop, usage) = (response.stop, response.usage);
            DurableEvent::TurnFinished(TurnFinished { turn, stop, usage })
        }
        Some(Feed::ToolFinished { result, .. }) => {
            let call_id = result.call_id.clone();
            let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
            let duration_ms = ran.map(millis);
            DurableEvent::ToolFinished(ToolFinished { step, call_id, duration_ms })
        }
        Some(Feed::ApprovalNeeded { request, .. }) if is_wait(request) => {
            let call_id = request.call.id.clone();
            DurableEvent::WaitingStarted(WaitingStarted { step, call_id })
        }
        Some(Feed::ApprovalNeeded { request, .. }) => {
            DurableEvent::ApprovalNeeded(ApprovalNeeded { request: request.clone() })
        }
        Some(Feed::ApprovalDecided { id, decision }) => {
            let decision = decision.clone();
            DurableEvent::ApprovalDecided(ApprovalDecided { id: *id, decision, by: None })
        }
        Some(Feed::ContextFitted { messages, .. }) => {
            DurableEvent::Compacted(Compacted { step, pieces: messages.len() as u64 })
        }
        Some(Feed::OutputChecked { problem: Some(problem), .. }) => {
            DurableEvent::OutputRejected(OutputRejected { reason: problem.clone() })
        }
        Some(Feed::HandedOff(handed)) => DurableEvent::HandedOff(handed.hand_off.clone()),
        Some(Feed::Noted { shared, .. }) if !shared.is_empty() => {
            DurableEvent::StateChanged(StateChanged { changes: shared.clone() })
        }
        Some(Feed::LimitFound { .. }) => DurableEvent::LimitFound(LimitFound { step }),
        Some(Feed::Stopped { reason, .. }) => DurableEvent::Stopped(Stopped { reason: *reason }),
        Some(
            Feed::ContextChanged { .. }
            | Feed::LimitDecided { .. }
            | Feed::OutputChecked { problem: None, .. }
            | Feed::ChildUsed { .. }
            | Feed::ChildrenUsed { .. }
            | Feed::Saved
            | Feed::Noted { .. }
            | Feed::Suspended { .. }
            | Feed::Resumed { .. },
        ) => return None,
    })
}

/// What a feed cost, in millionths, if that is known.
pub(super) fn cost_of(feed: Option<&Feed>) -> Option<i64> {
    let cost = match feed {
        Some(
            Feed::ModelAnswered { cost, .. }
            | Feed::ContextFitted { cost, .. }
            | Feed::Stopped { cost, .. },
        ) => *cost,
        Some(Feed::HandedOff(handed)) => handed.cost,
        _ => None,
    };
    cost.map(Money::micros)
}
