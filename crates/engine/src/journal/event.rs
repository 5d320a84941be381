//! The durable events of a feed, in the words of [`EventKind`](provost_core::EventKind). A message or a result is named, not
//! repeated: whoever reads the log puts it in.

use provost_agent::run::Feed;
use provost_core::Money;
use serde_json::{Value, json};

use crate::child::is_wait;
use crate::write::NewEvent;

/// What happened, for the log.
pub(super) fn of_feed(feed: Option<&Feed>, turn: u32, step: u64, events: &mut Vec<NewEvent>) {
    let mut event = |kind, body: Value| events.push(NewEvent::new(kind, body));
    match feed {
        None => events.push(NewEvent::with_message("user_message", json!({}))),
        Some(Feed::ModelAnswered { response, .. }) => {
            let body = json!({"turn": turn, "stop": response.stop, "usage": response.usage});
            events.push(NewEvent::with_message("turn_finished", body));
        }
        Some(Feed::ToolFinished { result, .. }) => {
            event("tool_finished", json!({"step": step, "call_id": result.call_id}));
        }
        Some(Feed::ApprovalNeeded { request, .. }) if is_wait(request) => {
            event("waiting_started", json!({"step": step, "call_id": request.call.id}));
        }
        Some(Feed::ApprovalNeeded { request, .. }) => {
            event("approval_needed", json!({ "request": request }));
        }
        Some(Feed::ApprovalDecided { id, decision }) => {
            event("approval_decided", json!({"id": id, "decision": decision}));
        }
        Some(Feed::UserSaid { .. }) => {
            events.push(NewEvent::with_message("user_message", json!({})));
        }
        Some(Feed::ContextFitted { messages, .. }) => {
            event("compacted", json!({"step": step, "pieces": messages.len()}));
        }
        Some(Feed::OutputChecked { problem: Some(problem), .. }) => {
            event("output_rejected", json!({ "reason": problem }));
        }
        Some(Feed::LimitFound { .. }) => event("limit_found", json!({ "step": step })),
        Some(Feed::Stopped { reason, .. }) => event("stopped", json!({ "reason": reason })),
        Some(
            Feed::ContextChanged { .. }
            | Feed::LimitDecided { .. }
            | Feed::OutputChecked { problem: None, .. }
            | Feed::Saved
            | Feed::Noted { .. }
            | Feed::Suspended { .. }
            | Feed::Resumed { .. },
        ) => {}
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
        _ => None,
    };
    cost.map(Money::micros)
}
