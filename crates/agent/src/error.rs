//! Errors of building and running agents.

use std::fmt;

use provost_core::policy::ModelDenied;
use provost_core::{ErrorInfo, ErrorKind, LimitReached, RunSummary};
use provost_model::ModelError;
use provost_session::SessionError;
use provost_session::shared_state::StateError;
use provost_tool::ToolSpecError;

use crate::context::ContextError;
use crate::hook::HookError;
use crate::instructions::PromptError;
use crate::journal::JournalError;
use crate::outcome::SuspendedRun;
use crate::run::{ContinueError, TransitionError};

/// An invalid agent definition.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The agent's name is not valid in paths and tool names.
    #[error("`{0}` is not an agent name: use 1 to 64 letters, digits, `_`, `-` or `.`")]
    Name(String),
    /// Two tools have the same name.
    #[error("two tools are called `{0}`: rename one of them")]
    DuplicateTool(String),
    /// A tool has an invalid specification.
    #[error(transparent)]
    Tool(#[from] ToolSpecError),
    /// The instructions are not a valid template.
    #[error("the instructions are not a valid template: {0}")]
    Template(String),
    /// A setting is invalid or missing.
    #[error("{0}")]
    Setting(String),
}

impl BuildError {
    /// Returns the shared error kind.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Invalid
    }
}

/// The reason why a run ended without an output.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The run cannot start with these options.
    #[error("{0}")]
    Start(String),
    /// The instructions could not be rendered.
    #[error(transparent)]
    Prompt(#[from] PromptError),
    /// The model call failed.
    #[error("model: {0}")]
    Model(#[from] ModelError),
    /// A tool failed in a way that ends the run.
    #[error("tool `{tool}`: {error}")]
    Tool {
        /// The name of the tool.
        tool: String,
        /// The tool's error.
        error: ErrorInfo,
    },
    /// A hook denied the run or failed.
    #[error("hook {point}: {error}")]
    Hook {
        /// The hook point.
        point: &'static str,
        /// The hook's error.
        error: HookError,
    },
    /// A hook denied the run before its first model call.
    #[error("the run was refused: {reason}")]
    Denied {
        /// The hook's reason.
        reason: String,
    },
    /// A policy denied the model call.
    #[error(transparent)]
    Policy(#[from] ModelDenied),
    /// The session could not be read or written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The shared state could not be read or written.
    #[error(transparent)]
    State(#[from] StateError),
    /// The conversation does not fit into the context window.
    #[error(transparent)]
    Context(#[from] ContextError),
    /// The given tool results do not match the pending calls.
    #[error(transparent)]
    Continue(#[from] ContinueError),
    /// A limit ended the run without any output.
    #[error("the limit of {} {} is reached: {} is too many", .0.allowed, .0.limit.as_str(), .0.used)]
    Limit(LimitReached),
    /// The output never matched the requested type.
    #[error("the answer is not the wanted type: {problem}")]
    Output {
        /// The mismatch of the last output.
        problem: String,
        /// The last output, unparsed.
        raw: String,
    },
    /// The run waits for approvals. Call [`outcome`](crate::RunBuilder::outcome) to get its state.
    #[error("the run waits for {} approval(s)", .0.approvals().len())]
    Suspended(Box<SuspendedRun>),
    /// The journal could not record a step.
    #[error("journal: {0}")]
    Journal(#[from] JournalError),
    /// The run was cancelled by its caller.
    #[error("the run was cancelled")]
    Cancelled {
        /// The result up to that point.
        partial: Box<RunSummary>,
    },
    /// A defect in Provost itself.
    #[error("defect: {0}")]
    Bug(String),
}

impl Error {
    /// Returns the shared error kind: it determines the retry, the HTTP status and the exit code.
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

    /// Returns the stable error code.
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

    /// Returns the error as serializable data.
    pub fn info(&self) -> ErrorInfo {
        ErrorInfo::new(self.kind(), self.code(), self.to_string())
    }
}

impl From<TransitionError> for Error {
    fn from(error: TransitionError) -> Self {
        Self::Bug(error.to_string())
    }
}

/// Uses the `Display` text as the `Debug` text, because a program whose `main` returns an error prints `Debug`.
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
