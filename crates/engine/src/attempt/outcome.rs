//! What an attempt came to, as data for the transaction that settles it.

use std::sync::Arc;
use std::time::Duration;

use provost_agent::{Error, Outcome};
use provost_core::durable::EndError;
use provost_core::recovery::{FailureSource, OutcomeCode};
use provost_core::{ApprovalRequest, ErrorInfo, LimitKind, RunSummary};
use serde_json::json;

use crate::error::EngineError;

/// What a run answered and used, written out before the transaction that stores it.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Everything, as JSON.
    pub(crate) result: String,
    /// What it used, as JSON.
    pub(crate) usage: String,
}

/// What an attempt came to.
#[derive(Debug, Clone)]
pub(crate) enum Verdict {
    /// It answered.
    Ok(Arc<Answer>),
    /// It waits for people.
    Asks(Vec<ApprovalRequest>),
    /// It was stopped as somebody asked.
    Cancelled,
    /// Its money is spent.
    OutOfMoney(String),
    /// It gives the run back at a boundary: its worker stops.
    HandedOver,
    /// The database did not take what it wrote; the run is none the worse.
    Unwritten(String),
    /// It failed.
    Failed {
        code: OutcomeCode,
        detail: String,
        /// Class of the error, if it is known more precisely than by the code.
        error: Option<EndError>,
        /// When the other side wants to be asked again.
        retry_after: Option<Duration>,
    },
}

impl Verdict {
    /// From what the driver says.
    pub(crate) fn of(outcome: Result<Outcome, Error>) -> Self {
        match outcome {
            Ok(Outcome::Done(result)) => {
                Self::Ok(Arc::new(answer(&result.output, &result.summary)))
            }
            Ok(Outcome::Suspended(suspended)) => {
                Self::Asks(suspended.approvals().into_iter().cloned().collect())
            }
            Ok(Outcome::Denied { reason }) => Self::failed(OutcomeCode::PolicyDenied, reason),
            Ok(Outcome::Cancelled(_)) => Self::Cancelled,
            Err(error) => Self::of_error(&error),
        }
    }

    pub(crate) fn failed(code: OutcomeCode, detail: impl Into<String>) -> Self {
        Self::Failed { code, detail: detail.into(), error: None, retry_after: None }
    }

    /// From a failure of the engine around the driver.
    pub(crate) fn of_engine(error: &EngineError) -> Self {
        match error {
            EngineError::Agent { .. } => Self::failed(OutcomeCode::SandboxStart, error.to_string()),
            EngineError::Store(_) if error.kind().retryable() => Self::Unwritten(error.to_string()),
            EngineError::Budget { .. } | EngineError::Unpriced { .. } => {
                Self::OutOfMoney(error.to_string())
            }
            _ => Self::failed(OutcomeCode::Internal, error.to_string()),
        }
    }

    fn of_error(error: &Error) -> Self {
        let info = error.info();
        if let Error::Journal(refused) = error {
            return Self::of_journal(&refused.0, info);
        }
        // The session is in the same database as the journal.
        if matches!(error, Error::Session(_)) && info.kind.retryable() {
            return Self::Unwritten(info.message);
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
            // The same again would come out the same: what the model said is in the journal.
            Error::Output { .. } => OutcomeCode::ProviderBadRequest,
            Error::Limit(reached) if reached.limit == LimitKind::Wall => OutcomeCode::Deadline,
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

    fn of_journal(refused: &ErrorInfo, shown: ErrorInfo) -> Self {
        match refused.code.as_str() {
            "budget" | "budget_unpriced" => Self::OutOfMoney(refused.message.clone()),
            "fenced" => Self::failed(OutcomeCode::Fenced, shown.message),
            "effect_unknown" => Self::failed(OutcomeCode::ToolError, shown.message),
            _ if refused.kind.retryable() => Self::Unwritten(shown.message),
            _ => Self::failed(OutcomeCode::of(refused, FailureSource::Engine), shown.message),
        }
    }
}

fn answer(output: &str, summary: &RunSummary) -> Answer {
    let result = json!({
        "text": output, "stop": summary.stop, "limit": summary.limit, "usage": summary.usage,
        "cost": summary.cost, "turns": summary.turns, "tool_calls": summary.tool_calls,
        "pending_calls": summary.pending_calls, "unpriced_calls": summary.unpriced_calls,
        "agent": summary.agent, "agents": summary.agents,
    });
    Answer { usage: result["usage"].to_string(), result: result.to_string() }
}
