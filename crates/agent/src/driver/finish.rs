//! What a run came to, for whoever watched it.

use provost_core::{EventKind, RunSummary, StopReason};

use super::Cx;
use crate::error::Error;
use crate::outcome::Outcome;

pub(super) fn empty_summary(cx: &Cx) -> RunSummary {
    RunSummary {
        text: String::new(),
        reasoning: String::new(),
        stop: StopReason::EndTurn,
        limit: None,
        pending_calls: Vec::new(),
        tool_results: Vec::new(),
        usage: provost_core::Usage::default(),
        cost: None,
        unpriced_calls: 0,
        turns: 0,
        tool_calls: 0,
        duration: std::time::Duration::ZERO,
        agent: cx.core.name.to_string(),
        response_id: None,
        agents: Vec::new(),
    }
}

pub(super) fn summary_of(outcome: &Outcome) -> Option<&RunSummary> {
    match outcome {
        Outcome::Done(result) => Some(&result.summary),
        Outcome::Cancelled(summary) => Some(summary),
        Outcome::Suspended(_) | Outcome::Denied { .. } => None,
    }
}

pub(super) fn terminal_event(outcome: &Result<Outcome, Error>) -> EventKind {
    match outcome {
        Ok(Outcome::Done(result)) => {
            EventKind::Finished { summary: Box::new(result.summary.clone()) }
        }
        Ok(Outcome::Suspended(suspended)) => {
            EventKind::Suspended { approvals: suspended.approvals().into_iter().cloned().collect() }
        }
        Ok(Outcome::Denied { reason }) => EventKind::Denied { reason: reason.clone() },
        Ok(Outcome::Cancelled(_)) => EventKind::Cancelled,
        Err(error) => EventKind::Failed { error: Box::new(error.info()) },
    }
}
