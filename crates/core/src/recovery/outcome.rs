//! Outcome codes of runs and attempts, with fixed consequences.
//!
//! Invariant: no consequence is ever derived from the text of an error. A tool may write "timeout" or "cancelled"
//! freely. it likes.

use crate::lifecycle::{AttemptStatus, RunStatus};
use crate::text::string_enum::string_enum;
use crate::{ErrorInfo, ErrorKind};

string_enum! {
    /// The reason why a run or an attempt did not succeed.
    #[derive(PartialOrd, Ord)]
    OutcomeCode, "an outcome code" {
        /// The provider is overloaded, failing or unreachable.
        ProviderOverloaded = "provider_overloaded",
        /// The provider's rate limit was reached.
        ProviderRateLimited = "provider_rate_limited",
        /// The provider rejects the credential, or its credit is used up.
        ProviderAuth = "provider_auth",
        /// The provider rejects the request.
        ProviderBadRequest = "provider_bad_request",
        /// The conversation exceeds the model's context window.
        ContextOverflow = "context_overflow",
        /// A tool failed in a way that ends the run.
        ToolError = "tool_error",
        /// A tool timed out in a way that ends the run.
        ToolTimeout = "tool_timeout",
        /// The sandbox could not be created.
        SandboxStart = "sandbox_start",
        /// The worker died or lost its lease.
        WorkerLost = "worker_lost",
        /// Another attempt took over, so this attempt wrote nothing more.
        Fenced = "fenced",
        /// A user cancelled the run.
        CancelledByUser = "cancelled_by_user",
        /// The parent run was cancelled.
        CancelledByParent = "cancelled_by_parent",
        /// A newer message interrupted the run.
        CancelledByInterrupt = "cancelled_by_interrupt",
        /// The deadline has passed.
        DeadlineExceeded = "deadline",
        /// The budget is used up.
        BudgetExceeded = "budget",
        /// A policy denies the run.
        PolicyDenied = "policy_denied",
        /// An approver denied the approval.
        ApprovalDenied = "approval_denied",
        /// The approval expired.
        ApprovalExpired = "approval_expired",
        /// The run crashed repeatedly without progress.
        CrashLoop = "crash_loop",
        /// An internal error of Provost.
        Internal = "internal",
    }
}

string_enum! {
    /// Permitted retries after an outcome.
    RetryClass, "a retry class" {
        /// No retry: the same attempt would end in the same way.
        Never = "never",
        /// Retry after a growing delay.
        Backoff = "backoff",
        /// Retry at the time that the provider named, without occupying a slot.
        RetryAfter = "after_wait",
        /// Retry with another credential or model.
        Failover = "failover",
        /// Retry with a shorter conversation.
        CompactContext = "compact",
        /// A new attempt that continues at the first open step. Counts as a crash, not as a retry.
        Resume = "resume",
    }
}

string_enum! {
    /// Signal of an attempt's outcome for the circuit breaker of its execution class.
    BreakerSignal, "a vote" {
        /// The run could not be executed: counts as a failure.
        Failure = "failed_to_run",
        /// The run was executed, with any result.
        Success = "ran",
        /// The outcome does not count.
        Ignored = "neutral",
    }
}

string_enum! {
    /// Source of an error.
    FailureSource, "a source of failure" {
        /// A model call.
        Model = "model",
        /// A tool call.
        Tool = "tool",
        /// The sandbox.
        Sandbox = "sandbox",
        /// The engine.
        Engine = "engine",
    }
}

/// The code of a model error for a conversation that exceeds the context window.
const CONTEXT_LENGTH: &str = "context_length";

impl OutcomeCode {
    /// Returns which retries are permitted after the outcome.
    pub const fn retry_class(self) -> RetryClass {
        match self {
            Self::ProviderOverloaded | Self::SandboxStart | Self::Internal => RetryClass::Backoff,
            Self::ProviderRateLimited => RetryClass::RetryAfter,
            Self::ProviderAuth => RetryClass::Failover,
            Self::ContextOverflow => RetryClass::CompactContext,
            Self::WorkerLost => RetryClass::Resume,
            Self::ProviderBadRequest
            | Self::ToolError
            | Self::ToolTimeout
            | Self::Fenced
            | Self::CancelledByUser
            | Self::CancelledByParent
            | Self::CancelledByInterrupt
            | Self::DeadlineExceeded
            | Self::BudgetExceeded
            | Self::PolicyDenied
            | Self::ApprovalDenied
            | Self::ApprovalExpired
            | Self::CrashLoop => RetryClass::Never,
        }
    }

    /// Returns true if the run was cancelled on request. Such a run is never retried, even if a policy lists the code.
    pub const fn is_cancellation(self) -> bool {
        matches!(self, Self::CancelledByUser | Self::CancelledByParent | Self::CancelledByInterrupt)
    }

    /// Returns the status of a run that ends with the outcome. `None` for outcomes that end only an attempt.
    pub const fn run_status(self) -> Option<RunStatus> {
        match self {
            Self::Fenced => None,
            Self::DeadlineExceeded => Some(RunStatus::Timeout),
            _ if self.is_cancellation() => Some(RunStatus::Cancelled),
            _ => Some(RunStatus::Error),
        }
    }

    /// Returns the status of an attempt that ends with the outcome.
    pub const fn attempt_status(self) -> AttemptStatus {
        match self {
            Self::DeadlineExceeded => AttemptStatus::Timeout,
            _ if self.is_cancellation() => AttemptStatus::Cancelled,
            _ => AttemptStatus::Error,
        }
    }

    /// Returns the error kind that a run with this outcome reports if no more specific kind is known.
    pub const fn error_kind(self) -> ErrorKind {
        match self {
            Self::ProviderOverloaded
            | Self::SandboxStart
            | Self::ToolError
            | Self::WorkerLost
            | Self::CrashLoop => ErrorKind::Unavailable,
            Self::ProviderRateLimited => ErrorKind::RateLimited,
            Self::ProviderAuth => ErrorKind::Unauthenticated,
            Self::ProviderBadRequest | Self::ContextOverflow => ErrorKind::Invalid,
            Self::ToolTimeout | Self::DeadlineExceeded => ErrorKind::Timeout,
            Self::Fenced => ErrorKind::Conflict,
            Self::CancelledByUser | Self::CancelledByParent | Self::CancelledByInterrupt => {
                ErrorKind::Cancelled
            }
            Self::BudgetExceeded => ErrorKind::Exhausted,
            Self::PolicyDenied | Self::ApprovalDenied | Self::ApprovalExpired => ErrorKind::Denied,
            Self::Internal => ErrorKind::Bug,
        }
    }

    /// Returns the signal for the circuit breaker. Only a failure to execute the run counts.
    pub const fn breaker_signal(self) -> BreakerSignal {
        match self {
            Self::SandboxStart | Self::WorkerLost => BreakerSignal::Failure,
            Self::ProviderOverloaded
            | Self::ProviderRateLimited
            | Self::ProviderAuth
            | Self::ProviderBadRequest
            | Self::ContextOverflow
            | Self::ToolError
            | Self::ToolTimeout => BreakerSignal::Success,
            Self::Fenced
            | Self::CancelledByUser
            | Self::CancelledByParent
            | Self::CancelledByInterrupt
            | Self::DeadlineExceeded
            | Self::BudgetExceeded
            | Self::PolicyDenied
            | Self::ApprovalDenied
            | Self::ApprovalExpired
            | Self::CrashLoop
            | Self::Internal => BreakerSignal::Ignored,
        }
    }

    /// Returns the outcome of an error, by its source, kind and stable code, never by its text.
    pub fn of(error: &ErrorInfo, source: FailureSource) -> Self {
        if source == FailureSource::Model && error.code == CONTEXT_LENGTH {
            return Self::ContextOverflow;
        }
        Self::of_kind(error.kind, source)
    }

    /// Returns the outcome of an error kind if no more specific code is known.
    pub const fn of_kind(kind: ErrorKind, source: FailureSource) -> Self {
        use FailureSource as S;
        match (source, kind) {
            (_, ErrorKind::Cancelled) => Self::CancelledByUser,
            (_, ErrorKind::Bug) => Self::Internal,
            (S::Model, ErrorKind::RateLimited) => Self::ProviderRateLimited,
            (S::Model, ErrorKind::Unauthenticated | ErrorKind::Exhausted) => Self::ProviderAuth,
            (S::Model, ErrorKind::Unavailable | ErrorKind::Timeout | ErrorKind::Malformed) => {
                Self::ProviderOverloaded
            }
            (
                S::Model,
                ErrorKind::Invalid | ErrorKind::Denied | ErrorKind::NotFound | ErrorKind::Conflict,
            ) => Self::ProviderBadRequest,
            (S::Tool, ErrorKind::Timeout) => Self::ToolTimeout,
            (S::Tool, _) => Self::ToolError,
            (S::Sandbox, _) => Self::SandboxStart,
            (S::Engine, ErrorKind::Denied | ErrorKind::Unauthenticated) => Self::PolicyDenied,
            (S::Engine, ErrorKind::Exhausted) => Self::BudgetExceeded,
            (S::Engine, ErrorKind::Timeout) => Self::DeadlineExceeded,
            (S::Engine, _) => Self::Internal,
        }
    }
}

#[cfg(test)]
mod tests;
