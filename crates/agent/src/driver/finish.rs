//! The summary and the terminal event of a run.

use provost_core::{EventKind, RunSummary, StopReason};

use super::DriverContext;
use crate::error::Error;
use crate::outcome::RunOutcome;

/// Returns the summary of a run without a model call.
pub(super) fn empty_summary(cx: &DriverContext) -> RunSummary {
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
        agent: cx.definition.name.to_string(),
        response_id: None,
        agents: Vec::new(),
    }
}

/// Returns the summary of a completed or cancelled run. `None` for another outcome.
pub(super) fn outcome_summary(outcome: &RunOutcome) -> Option<RunSummary> {
    match outcome {
        RunOutcome::Completed(result) => Some(result.summary()),
        RunOutcome::Cancelled(summary) => Some(summary.clone()),
        RunOutcome::Suspended(_) | RunOutcome::Denied { .. } => None,
    }
}

/// Returns the last event of a run.
pub(super) fn terminal_event(outcome: &Result<RunOutcome, Error>) -> EventKind {
    match outcome {
        Ok(RunOutcome::Completed(result)) => {
            EventKind::Finished { summary: Box::new(result.summary()) }
        }
        Ok(RunOutcome::Suspended(suspended)) => {
            EventKind::Suspended { approvals: suspended.approvals().into_iter().cloned().collect() }
        }
        Ok(RunOutcome::Denied { reason }) => EventKind::Denied { reason: reason.clone() },
        Ok(RunOutcome::Cancelled(_)) => EventKind::Cancelled,
        Err(error) => EventKind::Failed { error: Box::new(error.info()) },
    }
}
