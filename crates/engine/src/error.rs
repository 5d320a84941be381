//! Why the engine refuses or fails; every case has a stable code and a shared kind.

use provost_core::durable::DurableEventError;
use provost_core::execution_policy::PolicyError;
use provost_core::lifecycle::{Illegal, WorkError};
use provost_core::{ErrorInfo, ErrorKind};
use provost_store::StoreError;
use provost_store::query::QueryError;

use crate::journal::entry::Unreadable;

/// Why the engine refuses or fails.
#[derive(Debug, Clone, thiserror::Error)]
pub enum EngineError {
    /// The work itself does not allow it.
    #[error(transparent)]
    Work(#[from] WorkError),
    /// The database failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Money would be spent that is not there.
    #[error(
        "the budget of {scope} is used up: {needed} more millionths are needed and {left} are left; raise it to go on"
    )]
    Budget {
        /// Whose budget.
        scope: String,
        /// What the next model call may cost.
        needed: i64,
        /// What is left.
        left: i64,
    },
    /// A budget cannot be kept because nobody knows what the model costs.
    #[error(
        "{scope} has a budget and the price of the model in its currency or its longest answer is not known: give both or drop the budget"
    )]
    Unpriced {
        /// Whose budget.
        scope: String,
    },
    /// A crash hid what came of a call, and its policy is to fail then.
    #[error(
        "the outcome of `{tool}` is unknown after an interruption: find out what happened, then start again"
    )]
    EffectUnknown {
        /// Which tool.
        tool: String,
    },
    /// The agent that a run was started with cannot be made.
    #[error("agent `{agent}` cannot be used: {problem}")]
    Agent {
        /// Which agent.
        agent: String,
        /// What is wrong.
        problem: String,
    },
    /// The engine takes no new work.
    #[error("the engine is stopping: try again when it runs")]
    Stopping,
    /// What is stored is not what this program writes.
    #[error("what is stored cannot be read: {0}")]
    Unreadable(String),
    /// A defect of Provost itself.
    #[error("defect: {0}")]
    Bug(String),
}

impl EngineError {
    pub(crate) fn bug(problem: impl Into<String>) -> Self {
        Self::Bug(problem.into())
    }

    pub(crate) fn effect_unknown(tool: &str) -> Self {
        Self::EffectUnknown { tool: tool.to_owned() }
    }

    pub(crate) fn not_found(what: &'static str, id: impl std::fmt::Display) -> Self {
        Self::Work(WorkError::not_found(what, id))
    }

    /// True if another attempt has taken the run: this one must write nothing more.
    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Work(WorkError::Fenced { .. }))
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Work(error) => error.code(),
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

    /// The shared kind: decides retry, HTTP status and exit code.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Work(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Budget { .. } => ErrorKind::Exhausted,
            Self::Unpriced { .. } | Self::Agent { .. } => ErrorKind::Invalid,
            Self::EffectUnknown { .. } => ErrorKind::Conflict,
            Self::Stopping => ErrorKind::Unavailable,
            Self::Unreadable(_) => ErrorKind::Malformed,
            Self::Bug(_) => ErrorKind::Bug,
        }
    }

    /// The error as data.
    pub fn info(&self) -> ErrorInfo {
        ErrorInfo::new(self.kind(), self.code(), self.to_string())
    }
}

impl From<Illegal> for EngineError {
    fn from(error: Illegal) -> Self {
        Self::Work(error.into())
    }
}

impl From<PolicyError> for EngineError {
    fn from(error: PolicyError) -> Self {
        Self::Work(error.into())
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
            QueryError::Work(error) => Self::Work(error),
            QueryError::Store(error) => Self::Store(error),
            QueryError::Unreadable(problem) => Self::Unreadable(problem),
        }
    }
}

impl From<Unreadable> for EngineError {
    fn from(error: Unreadable) -> Self {
        Self::Unreadable(error.to_string())
    }
}
