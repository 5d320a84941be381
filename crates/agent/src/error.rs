//! Why an agent could not be built, or a run did not end well.

use std::fmt;

use provost_core::policy::ModelDenied;
use provost_core::{ErrorInfo, ErrorKind, LimitReached, RunSummary};
use provost_model::ModelError;
use provost_session::SessionError;
use provost_session::shared_state::StateError;
use provost_tool::SpecError;

use crate::context::ContextError;
use crate::hook::HookError;
use crate::instructions::PromptError;
use crate::journal::JournalError;
use crate::outcome::Suspended;
use crate::run::{ContinueError, FeedError};

/// Why an agent cannot be built like this.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// A name that cannot be used in paths and tool names.
    #[error("`{0}` is not an agent name: use 1 to 64 letters, digits, `_`, `-` or `.`")]
    Name(String),
    /// Two tools with one name.
    #[error("two tools are called `{0}`: rename one of them")]
    DuplicateTool(String),
    /// A tool that cannot be offered.
    #[error(transparent)]
    Tool(#[from] SpecError),
    /// Instructions that are no template.
    #[error("the instructions are not a valid template: {0}")]
    Template(String),
    /// A number that makes no sense.
    #[error("{0}")]
    Setting(String),
}

impl BuildError {
    /// The shared kind.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

/// Why a run did not end with an answer.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The run cannot start like this.
    #[error("{0}")]
    Start(String),
    /// The instructions could not be made.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The model failed.
    #[error("model: {0}")]
    Model(#[from] ModelError),
    /// A tool said that the run cannot go on.
    #[error("tool `{tool}`: {error}")]
    Tool {
        /// Which tool.
        tool: String,
        /// What it said.
        error: ErrorInfo,
    },
    /// A hook refused or failed.
    #[error("hook {point}: {error}")]
    Hook {
        /// At which point.
        point: &'static str,
        /// What it said.
        error: HookError,
    },
    /// A hook refused the run before its first model call.
    #[error("the run was refused: {reason}")]
    Denied {
        /// Why.
        reason: String,
    },
    /// A policy does not let the model be asked.
    #[error(transparent)]
    Policy(#[from] ModelDenied),
    /// The session could not be read or written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// Values that outlive the run could not be read or written.
    #[error(transparent)]
    State(#[from] StateError),
    /// The conversation could not be made to fit.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// The given tool results do not fit.
    #[error(transparent)]
    Continue(#[from] ContinueError),
    /// A limit ended the run without any result.
    #[error("the limit of {} {} is reached: {} is too many", .0.allowed, .0.limit.as_str(), .0.used)]
    Limit(LimitReached),
    /// The answer never became the wanted type.
    #[error("the answer is not the wanted type: {problem}")]
    Output {
        /// What is wrong with it.
        problem: String,
        /// The last answer as it came.
        raw: String,
    },
    /// The run waits for decisions; ask for the [`outcome`](crate::RunBuilder::outcome) to get its state.
    #[error("the run waits for {} approval(s)", .0.approvals().len())]
    Suspended(Box<Suspended>),
    /// The journal did not take what happened.
    #[error("journal: {0}")]
    Journal(#[from] JournalError),
    /// The run was stopped from outside.
    #[error("the run was cancelled")]
    Cancelled {
        /// What it had come to.
        partial: Box<RunSummary>,
    },
    /// A defect of Provost itself.
    #[error("defect: {0}")]
    Bug(String),
}

impl Error {
    /// The shared kind: decides retry, HTTP status and exit code.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Start(_) | Self::Prompt(_) | Self::Continue(_) => ErrorKind::Invalid,
            Self::Model(error) => error.kind(),
            Self::Tool { error, .. } => error.kind,
            Self::Hook { .. } | Self::Denied { .. } | Self::Policy(_) => ErrorKind::Denied,
            Self::Session(error) => error.kind(),
            Self::State(error) => error.kind(),
            Self::Context(error) => error.kind(),
            Self::Limit(_) => ErrorKind::Exhausted,
            Self::Output { .. } => ErrorKind::Malformed,
            Self::Suspended(_) => ErrorKind::Conflict,
            Self::Cancelled { .. } => ErrorKind::Cancelled,
            Self::Journal(error) => error.0.kind,
            Self::Bug(_) => ErrorKind::Bug,
        }
    }

    /// The stable code.
    pub fn code(&self) -> &str {
        match self {
            Self::Start(_) => "start",
            Self::Prompt(_) => "prompt",
            Self::Model(error) => error.class.as_str(),
            Self::Tool { error, .. } => &error.code,
            Self::Hook { .. } => "hook",
            Self::Denied { .. } => "denied",
            Self::Policy(_) => "model_denied",
            Self::Session(_) => "session",
            Self::State(_) => "state",
            Self::Context(_) => "context",
            Self::Continue(_) => "continue",
            Self::Limit(_) => "limit",
            Self::Output { .. } => "output",
            Self::Suspended(_) => "suspended",
            Self::Cancelled { .. } => "cancelled",
            Self::Journal(error) => &error.0.code,
            Self::Bug(_) => "bug",
        }
    }

    /// The error as data.
    pub fn info(&self) -> ErrorInfo {
        ErrorInfo::new(self.kind(), self.code(), self.to_string())
    }
}

impl From<FeedError> for Error {
    fn from(error: FeedError) -> Self {
        Self::Bug(error.to_string())
    }
}

/// A program that ends with an error shows its `Debug` form; a sentence helps more there than the shape of a value.
macro_rules! debug_as_sentence {
    ($($error:ty),+) => {$(
        impl fmt::Debug for $error {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }
    )+};
}

debug_as_sentence!(BuildError, Error);
