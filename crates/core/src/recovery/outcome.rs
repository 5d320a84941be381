//! How runs and attempts end, as codes with fixed consequences.
//!
//! Invariant: no consequence is ever read out of the words of an error. A tool may say "timeout" or "cancelled" as often as
//! it likes.

use crate::lifecycle::{AttemptStatus, RunStatus};
use crate::text::string_enum::string_enum;
use crate::{ErrorInfo, ErrorKind};

string_enum! {
    /// Why a run or an attempt ended other than well.
    #[derive(PartialOrd, Ord)]
    OutcomeCode, "an outcome code" {
        /// The provider is overloaded, broken or out of reach.
        ProviderOverloaded = "provider_overloaded",
        /// The provider wants fewer requests for now.
        ProviderRateLimited = "provider_rate_limited",
        /// The provider does not take the credential, or it has no money left.
        ProviderAuth = "provider_auth",
        /// The provider refuses the request itself.
        ProviderBadRequest = "provider_bad_request",
        /// The conversation does not fit the model.
        ContextOverflow = "context_overflow",
        /// A tool failed in a way that ends the run.
        ToolError = "tool_error",
        /// A tool took too long in a way that ends the run.
        ToolTimeout = "tool_timeout",
        /// The place to run in could not be made.
        SandboxStart = "sandbox_start",
        /// The worker died or lost its lease.
        WorkerLost = "worker_lost",
        /// Another attempt took over; this one wrote nothing more.
        Fenced = "fenced",
        /// A person cancelled it.
        CancelledByUser = "cancelled_by_user",
        /// The run that started it was cancelled.
        CancelledByParent = "cancelled_by_parent",
        /// A newer message took its place.
        CancelledByInterrupt = "cancelled_by_interrupt",
        /// Its time is over.
        DeadlineExceeded = "deadline",
        /// Its money is spent.
        BudgetExceeded = "budget",
        /// The policy forbids it.
        PolicyDenied = "policy_denied",
        /// A person said no.
        ApprovalDenied = "approval_denied",
        /// Nobody said anything in time.
        ApprovalExpired = "approval_expired",
        /// It crashed again and again without getting anywhere.
        CrashLoop = "crash_loop",
        /// A defect of Provost itself.
        Internal = "internal",
    }
}

string_enum! {
    /// What may be tried after an outcome.
    RetryClass, "a retry class" {
        /// Nothing: the same again would end the same.
        Never = "never",
        /// The same again after a growing wait.
        Backoff = "backoff",
        /// The same again when the other side said, without holding a place meanwhile.
        RetryAfter = "after_wait",
        /// Another credential or another model.
        Failover = "failover",
        /// The same again with a shorter conversation.
        CompactContext = "compact",
        /// A new attempt that goes on at the first open step; counted as a crash and not as a try.
        Resume = "resume",
    }
}

string_enum! {
    /// What an attempt's end says about its class.
    BreakerSignal, "a vote" {
        /// It could not be run: this counts for the breaker.
        Failure = "failed_to_run",
        /// It was run, whatever came of it.
        Success = "ran",
        /// It says nothing about the class.
        Ignored = "neutral",
    }
}

string_enum! {
    /// Whose failure an error is.
    FailureSource, "a source of failure" {
        /// A model call.
        Model = "model",
        /// A tool call.
        Tool = "tool",
        /// The place to run in.
        Sandbox = "sandbox",
        /// The engine.
        Engine = "engine",
    }
}

/// The code of a model error that says that the conversation does not fit.
const CONTEXT_LENGTH: &str = "context_length";

impl OutcomeCode {
    /// What may be tried next.
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

    /// True if somebody asked for the end. This is never tried again, whatever a policy lists.
    pub const fn is_cancellation(self) -> bool {
        matches!(self, Self::CancelledByUser | Self::CancelledByParent | Self::CancelledByInterrupt)
    }

    /// The status of a run that ends with this. `None` for what ends an attempt and never a run.
    pub const fn run_status(self) -> Option<RunStatus> {
        match self {
            Self::Fenced => None,
            Self::DeadlineExceeded => Some(RunStatus::Timeout),
            _ if self.is_cancellation() => Some(RunStatus::Cancelled),
            _ => Some(RunStatus::Error),
        }
    }

    /// The status of an attempt that ends with this.
    pub const fn attempt_status(self) -> AttemptStatus {
        match self {
            Self::DeadlineExceeded => AttemptStatus::Timeout,
            _ if self.is_cancellation() => AttemptStatus::Cancelled,
            _ => AttemptStatus::Error,
        }
    }

    /// Kind of error that a run which ends with this reports if nothing more precise is known.
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

    /// What this says about the class it ran in. Only a failure to run anything counts for the breaker.
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

    /// The outcome that an error leads to: by whose it is, by its kind and by its stable code, never by its words.
    pub fn of(error: &ErrorInfo, source: FailureSource) -> Self {
        if source == FailureSource::Model && error.code == CONTEXT_LENGTH {
            return Self::ContextOverflow;
        }
        Self::of_kind(error.kind, source)
    }

    /// The outcome of a kind of error where no finer code is known.
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
