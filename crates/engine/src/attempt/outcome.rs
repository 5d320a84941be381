//! Outcome of an attempt, as data for the transaction that settles it.

use std::sync::Arc;
use std::time::Duration;

use provost_agent::{Error, RunOutcome};
use provost_core::durable::EndError;
use provost_core::recovery::{FailureSource, OutcomeCode};
use provost_core::{ApprovalRequest, ErrorInfo, LimitKind, RunSummary};
use serde_json::json;

use crate::error::EngineError;

/// Result and usage of a run, serialized before the transaction that stores them.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SerializedResult {
    /// Output, usage and statistics, as JSON.
    pub(crate) result: String,
    /// Token usage, as JSON.
    pub(crate) usage: String,
}

/// Outcome of an attempt.
#[derive(Debug, Clone)]
pub(crate) enum AttemptOutcome {
    /// The run completed.
    Completed(Arc<SerializedResult>),
    /// The run needs approvals.
    NeedsApproval(Vec<ApprovalRequest>),
    /// The run stopped after a cancellation.
    Cancelled,
    /// A budget is exhausted.
    BudgetExceeded(String),
    /// The run stopped at a step boundary, because its worker stops.
    Drained,
    /// The database did not accept the writes of the attempt. The run itself has not failed.
    NotPersisted(String),
    /// The attempt failed.
    Failed {
        code: OutcomeCode,
        detail: String,
        /// Error kind and code, if known more precisely than by the outcome code.
        error: Option<EndError>,
        /// Delay before a retry that the provider requested.
        retry_after: Option<Duration>,
    },
}

impl AttemptOutcome {
    /// Converts the result of the agent driver.
    pub(crate) fn from_driver(outcome: Result<RunOutcome, Error>) -> Self {
        match outcome {
            Ok(RunOutcome::Completed(result)) => {
                Self::Completed(Arc::new(serialized_result(&result.output, &result.summary())))
            }
            Ok(RunOutcome::Suspended(suspended)) => {
                Self::NeedsApproval(suspended.approvals().into_iter().cloned().collect())
            }
            Ok(RunOutcome::Denied { reason }) => Self::failed(OutcomeCode::PolicyDenied, reason),
            Ok(RunOutcome::Cancelled(_)) => Self::Cancelled,
            Err(error) => Self::from_agent_error(&error),
        }
    }

    /// Creates a failure without the data of an error.
    pub(crate) fn failed(code: OutcomeCode, detail: impl Into<String>) -> Self {
        Self::Failed { code, detail: detail.into(), error: None, retry_after: None }
    }

    /// Converts an error of the engine outside of the agent driver.
    pub(crate) fn from_engine_error(error: &EngineError) -> Self {
        match error {
            EngineError::Agent { .. } => Self::failed(OutcomeCode::SandboxStart, error.to_string()),
            EngineError::Store(_) if error.kind().retryable() => {
                Self::NotPersisted(error.to_string())
            }
            EngineError::Budget { .. } | EngineError::Unpriced { .. } => {
                Self::BudgetExceeded(error.to_string())
            }
            _ => Self::failed(OutcomeCode::Internal, error.to_string()),
        }
    }

    /// Converts an error of the agent driver. Errors of the journal and the session that a later attempt may not have
    /// become [`AttemptOutcome::NotPersisted`].
    fn from_agent_error(error: &Error) -> Self {
        let info = error.info();
        if let Error::Journal(refused) = error {
            return Self::from_journal_error(&refused.0, info);
        }
        // The session is in the same database as the journal.
        if matches!(error, Error::Session(_)) && info.kind.retryable() {
            return Self::NotPersisted(info.message);
        }
        let source = match error {
            Error::Model(_) | Error::Context(_) => FailureSource::Model,
            Error::Tool { .. } => FailureSource::Tool,
            _ => FailureSource::Engine,
        };
        let code = match error {
            Error::Hook { .. } | Error::Denied { .. } | Error::Policy(_) => {
                OutcomeCode::PolicyDenied
            }
            // A retry would fail in the same way, because the journal contains the response of the model.
            Error::Output { .. } => OutcomeCode::ProviderBadRequest,
            Error::Limit(reached) if reached.limit == LimitKind::Wall => {
                OutcomeCode::DeadlineExceeded
            }
            Error::Limit(_) => OutcomeCode::PolicyDenied,
            _ => OutcomeCode::of(&info, source),
        };
        let retry_after = match error {
            Error::Model(error) => error.retry_after,
            _ => None,
        };
        let error = Some(EndError { kind: info.kind, code: info.code });
        Self::Failed { code, detail: info.message, error, retry_after }
    }

    /// Converts an error of the journal by its code.
    fn from_journal_error(refused: &ErrorInfo, info: ErrorInfo) -> Self {
        match refused.code.as_str() {
            "budget" | "budget_unpriced" => Self::BudgetExceeded(refused.message.clone()),
            "fenced" => Self::failed(OutcomeCode::Fenced, info.message),
            "effect_unknown" => Self::failed(OutcomeCode::ToolError, info.message),
            _ if refused.kind.retryable() => Self::NotPersisted(info.message),
            _ => Self::failed(OutcomeCode::of(refused, FailureSource::Engine), info.message),
        }
    }
}

/// Serializes the result and the usage of a run.
fn serialized_result(output: &str, summary: &RunSummary) -> SerializedResult {
    let result = json!({
        "text": output, "stop": summary.stop, "limit": summary.limit, "usage": summary.usage,
        "cost": summary.cost, "turns": summary.turns, "tool_calls": summary.tool_calls,
        "pending_calls": summary.pending_calls, "unpriced_calls": summary.unpriced_calls,
        "agent": summary.agent, "agents": summary.agents,
    });
    SerializedResult { usage: result["usage"].to_string(), result: result.to_string() }
}
