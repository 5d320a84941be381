//! The durable events of a feed, in the words of [`EventKind`](provost_core::EventKind). A message or a result is named, not
//! repeated: whoever reads the log puts it in.

use provost_agent::run::Feed;
use provost_core::{Money, StopReason, Usage};
use serde::Serialize;
use serde_json::{Value, json};

use crate::child::is_wait;
use crate::error::EngineError;
use crate::write::NewEvent;

// The bodies that each turn has are structs: they are written without a tree of values before.

#[derive(Serialize)]
pub(super) struct TurnStarted {
    pub(super) turn: u32,
}

#[derive(Serialize)]
struct TurnFinished {
    turn: u32,
    stop: StopReason,
    usage: Usage,
}

#[derive(Serialize)]
pub(super) struct ToolStarted<'a> {
    pub(super) call_id: &'a str,
    pub(super) name: &'a str,
    pub(super) step: u64,
}

#[derive(Serialize)]
struct ToolFinished<'a> {
    step: u64,
    call_id: &'a str,
}

/// What happened, for the log.
pub(super) fn of_feed(
    feed: Option<&Feed>,
    turn: u32,
    step: u64,
) -> Result<Option<NewEvent>, EngineError> {
    let event = |kind, body: Value| NewEvent::new(kind, &body).map(Some);
    match feed {
        None => NewEvent::with_message("user_message", &json!({})).map(Some),
        Some(Feed::ModelAnswered { response, .. }) => {
            let body = TurnFinished { turn, stop: response.stop, usage: response.usage };
            NewEvent::with_message("turn_finished", &body).map(Some)
        }
        Some(Feed::ToolFinished { result, .. }) => {
            NewEvent::new("tool_finished", &ToolFinished { step, call_id: &result.call_id })
                .map(Some)
        }
        Some(Feed::ApprovalNeeded { request, .. }) if is_wait(request) => {
            event("waiting_started", json!({"step": step, "call_id": request.call.id}))
        }
        Some(Feed::ApprovalNeeded { request, .. }) => {
            event("approval_needed", json!({ "request": request }))
        }
        Some(Feed::ApprovalDecided { id, decision }) => {
            event("approval_decided", json!({"id": id, "decision": decision}))
        }
        Some(Feed::UserSaid { .. }) => NewEvent::with_message("user_message", &json!({})).map(Some),
        Some(Feed::ContextFitted { messages, .. }) => {
            event("compacted", json!({"step": step, "pieces": messages.len()}))
        }
        Some(Feed::OutputChecked { problem: Some(problem), .. }) => {
            event("output_rejected", json!({ "reason": problem }))
        }
        Some(Feed::HandedOff(handed)) => event("handed_off", json!(handed.hand_off)),
        Some(Feed::Noted { shared, .. }) if !shared.is_empty() => {
            event("state_changed", json!({ "changes": shared }))
        }
        Some(Feed::LimitFound { .. }) => event("limit_found", json!({ "step": step })),
        Some(Feed::Stopped { reason, .. }) => event("stopped", json!({ "reason": reason })),
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
        ) => Ok(None),
    }
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
