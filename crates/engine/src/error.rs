//! Errors of the engine. Each has a stable code and an [`ErrorKind`].

use provost_core::durable::DurableEventError;
use provost_core::execution_policy::PolicyError;
use provost_core::lifecycle::{InvalidTransition, RequestError};
use provost_core::{ErrorInfo, ErrorKind};
use provost_store::StoreError;
use provost_store::query::QueryError;

use crate::journal::entry::EntryDecodeError;

/// Error of the engine.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// The request is invalid, or the state of its target does not permit it.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A budget does not cover the next model call.
    #[error(
        "the budget of {scope} is exhausted: the next call needs {needed} millionths and {left} are left; raise the budget"
    )]
    Budget {
        /// Scope of the budget.
        scope: String,
        /// Cost that the next model call can have, in millionths of the currency.
        needed: i64,
        /// Remaining amount, in millionths of the currency.
        left: i64,
    },
    /// A budget cannot be enforced, because the price of the model is unknown.
    #[error(
        "{scope} has a budget, and the price of the model in its currency or its maximum output is unknown: set both or remove the budget"
    )]
    Unpriced {
        /// Scope of the budget.
        scope: String,
    },
    /// The outcome of a tool call is unknown after a crash, and the policy is to fail the run.
    #[error(
        "the outcome of `{tool}` is unknown after an interruption: check what happened, then start a new run"
    )]
    EffectUnknown {
        /// Name of the tool.
        tool: String,
    },
    /// The agent of a run cannot be built.
    #[error("agent `{agent}` cannot be used: {problem}")]
    Agent {
        /// Name of the agent.
        agent: String,
        /// Reason.
        problem: String,
    },
    /// The engine is stopping.
    #[error("the engine is stopping: try again when it runs")]
    Stopping,
    /// A stored value has an unknown or invalid format.
    #[error("stored data is unreadable: {0}")]
    Unreadable(String),
    /// A defect of Provost itself.
    #[error("defect: {0}")]
    Bug(String),
}

impl EngineError {
    /// Creates an [`EngineError::Bug`].
    pub(crate) fn bug(problem: impl Into<String>) -> Self {
        Self::Bug(problem.into())
    }

    /// Creates the error of a tool call whose outcome is unknown.
    pub(crate) fn effect_unknown(tool: &str) -> Self {
        Self::EffectUnknown { tool: tool.to_owned() }
    }

    /// Creates the error of an object that does not exist.
    pub(crate) fn not_found(what: &'static str, id: impl std::fmt::Display) -> Self {
        Self::Request(RequestError::not_found(what, id))
    }

    /// Returns true if another attempt has claimed the run. This attempt must not write any more.
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Request(RequestError::Fenced { .. }))
    }

    /// Returns the stable error code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Request(error) => error.code(),
            Self::Store(error) => error.code(),
            Self::Budget { .. } => "budget",
            Self::Unpriced { .. } => "budget_unpriced",
            Self::EffectUnknown { .. } => "effect_unknown",
            Self::Agent { .. } => "agent",
            Self::Stopping => "stopping",
            Self::Unreadable(_) => "unreadable",
            Self::Bug(_) => "bug",
        }
    }

    /// Returns the kind of the error. It determines retry, HTTP status and exit code.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Request(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Budget { .. } => ErrorKind::Exhausted,
            Self::Unpriced { .. } | Self::Agent { .. } => ErrorKind::Invalid,
            Self::EffectUnknown { .. } => ErrorKind::Conflict,
            Self::Stopping => ErrorKind::Unavailable,
            Self::Unreadable(_) => ErrorKind::Malformed,
            Self::Bug(_) => ErrorKind::Bug,
        }
    }

    /// Returns the kind, code and text of the error, in serializable form.
    pub fn info(&self) -> ErrorInfo {
        ErrorInfo::new(self.kind(), self.code(), self.to_string())
    }
}

impl From<InvalidTransition> for EngineError {
    fn from(error: InvalidTransition) -> Self {
        Self::Request(error.into())
    }
}

impl From<PolicyError> for EngineError {
    fn from(error: PolicyError) -> Self {
        Self::Request(error.into())
    }
}

impl From<serde_json::Error> for EngineError {
    fn from(error: serde_json::Error) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl From<DurableEventError> for EngineError {
    fn from(error: DurableEventError) -> Self {
        Self::Unreadable(error.to_string())
    }
}

impl From<QueryError> for EngineError {
    fn from(error: QueryError) -> Self {
        match error {
            QueryError::Work(error) => Self::Request(error),
            QueryError::Store(error) => Self::Store(error),
            QueryError::Unreadable(problem) => Self::Unreadable(problem),
        }
    }
}

impl From<EntryDecodeError> for EngineError {
    fn from(error: EntryDecodeError) -> Self {
        Self::Unreadable(error.to_string())
    }
}
