//! How a governed call fails: a code, its reason, and whether the same call may succeed later.

use std::collections::BTreeMap;
use std::fmt;

use crate::text::string_enum::words;
use crate::{ErrorInfo, ErrorKind};

use super::ToolStatus;

words! {
    /// What went wrong.
    #[derive(PartialOrd, Ord)]
    ToolCode, "a tool code" {
        /// The request is wrong.
        InvalidInput = "invalid_input",
        /// There is no such tool here, or it is of another type.
        UnsupportedTool = "unsupported_tool",
        /// The tool's own definition cannot be honoured.
        RuntimePolicyInvalid = "runtime_policy_invalid",
        /// What must isolate it is not there.
        IsolationUnavailable = "isolation_unavailable",
        /// Policy says no.
        PermissionDenied = "permission_denied",
        /// A secret that it needs cannot be had.
        SecretResolutionFailed = "secret_resolution_failed",
        /// It did not answer in time.
        Timeout = "timeout",
        /// Somebody asked to stop.
        Canceled = "canceled",
        /// It was tried and did not work.
        ExecutionFailed = "execution_failed",
        /// The credential is no longer valid.
        AuthExpired = "auth_expired",
        /// The credential is not valid.
        AuthInvalid = "auth_invalid",
        /// The credential is valid and may not do this.
        AuthForbidden = "auth_forbidden",
        /// A person must decide first.
        ApprovalPending = "approval_pending",
        /// A person said no.
        ApprovalDenied = "approval_denied",
        /// Nobody decided in time.
        ApprovalTimeout = "approval_timeout",
    }
}

words! {
    /// Why, in one word for programs.
    #[derive(PartialOrd, Ord)]
    ToolReason, "a tool reason" {
        /// For [`ToolCode::InvalidInput`].
        InvalidInput = "tool_invalid_input",
        /// For [`ToolCode::UnsupportedTool`].
        Unsupported = "tool_unsupported",
        /// For [`ToolCode::RuntimePolicyInvalid`].
        RuntimePolicyInvalid = "tool_runtime_policy_invalid",
        /// For [`ToolCode::IsolationUnavailable`].
        IsolationUnavailable = "tool_isolation_unavailable",
        /// For [`ToolCode::PermissionDenied`].
        PermissionDenied = "tool_permission_denied",
        /// For [`ToolCode::SecretResolutionFailed`].
        SecretResolutionFailed = "tool_secret_resolution_failed",
        /// For [`ToolCode::Timeout`].
        ExecutionTimeout = "tool_execution_timeout",
        /// For [`ToolCode::Canceled`].
        ExecutionCanceled = "tool_execution_canceled",
        /// For [`ToolCode::ExecutionFailed`].
        BackendFailure = "tool_backend_failure",
        /// For [`ToolCode::AuthExpired`].
        AuthExpired = "tool_auth_expired",
        /// For [`ToolCode::AuthInvalid`].
        AuthInvalid = "tool_auth_invalid",
        /// For [`ToolCode::AuthForbidden`].
        AuthForbidden = "tool_auth_forbidden",
        /// For [`ToolCode::ApprovalPending`].
        ApprovalPending = "tool_approval_pending",
        /// For [`ToolCode::ApprovalDenied`].
        ApprovalDenied = "tool_approval_denied",
        /// For [`ToolCode::ApprovalTimeout`].
        ApprovalTimeout = "tool_approval_timeout",
        /// An agent broke the rules of its own execution; goes with [`ToolCode::RuntimePolicyInvalid`].
        AgentContractViolation = "agent_contract_violation",
    }
}

impl ToolCode {
    /// The reason that goes with it unless a finer one is known.
    pub const fn reason(self) -> ToolReason {
        match self {
            Self::InvalidInput => ToolReason::InvalidInput,
            Self::UnsupportedTool => ToolReason::Unsupported,
            Self::RuntimePolicyInvalid => ToolReason::RuntimePolicyInvalid,
            Self::IsolationUnavailable => ToolReason::IsolationUnavailable,
            Self::PermissionDenied => ToolReason::PermissionDenied,
            Self::SecretResolutionFailed => ToolReason::SecretResolutionFailed,
            Self::Timeout => ToolReason::ExecutionTimeout,
            Self::Canceled => ToolReason::ExecutionCanceled,
            Self::ExecutionFailed => ToolReason::BackendFailure,
            Self::AuthExpired => ToolReason::AuthExpired,
            Self::AuthInvalid => ToolReason::AuthInvalid,
            Self::AuthForbidden => ToolReason::AuthForbidden,
            Self::ApprovalPending => ToolReason::ApprovalPending,
            Self::ApprovalDenied => ToolReason::ApprovalDenied,
            Self::ApprovalTimeout => ToolReason::ApprovalTimeout,
        }
    }

    /// May the same call succeed later? Of a failed execution the one who saw it can say otherwise.
    pub const fn retryable(self) -> bool {
        matches!(self, Self::Timeout | Self::ExecutionFailed)
    }

    /// The status of an answer with this code.
    pub const fn status(self) -> ToolStatus {
        match self {
            Self::PermissionDenied => ToolStatus::Denied,
            _ => ToolStatus::Error,
        }
    }

    /// Where it belongs in the one taxonomy.
    pub const fn kind(self) -> ErrorKind {
        match self {
            Self::InvalidInput | Self::RuntimePolicyInvalid => ErrorKind::Invalid,
            Self::UnsupportedTool => ErrorKind::NotFound,
            Self::PermissionDenied | Self::AuthForbidden | Self::ApprovalDenied => {
                ErrorKind::Denied
            }
            Self::AuthExpired | Self::AuthInvalid => ErrorKind::Unauthenticated,
            Self::Timeout | Self::ApprovalTimeout => ErrorKind::Timeout,
            Self::Canceled => ErrorKind::Cancelled,
            Self::ApprovalPending => ErrorKind::Conflict,
            Self::IsolationUnavailable | Self::SecretResolutionFailed | Self::ExecutionFailed => {
                ErrorKind::Unavailable
            }
        }
    }
}

/// How a governed call fails.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolFault {
    /// What went wrong.
    pub code: ToolCode,
    /// Why.
    pub reason: ToolReason,
    /// May the same call succeed later?
    pub retryable: bool,
    /// A sentence.
    pub message: String,
    /// Facts for programs; never a secret.
    pub details: BTreeMap<String, String>,
}

impl ToolFault {
    /// With the reason and the flag that usually go with the code.
    pub fn new(code: ToolCode, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: code.reason(),
            retryable: code.retryable(),
            message: message.into(),
            details: BTreeMap::new(),
        }
    }

    /// A failed execution that fails again if it is repeated.
    pub fn final_failure(message: impl Into<String>) -> Self {
        Self { retryable: false, ..Self::new(ToolCode::ExecutionFailed, message) }
    }

    /// Adds a fact.
    #[must_use]
    pub fn detail(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.details.insert(key.into(), value.into());
        self
    }

    /// As an entry of the one taxonomy.
    pub fn info(&self) -> ErrorInfo {
        ErrorInfo::new(self.code.kind(), self.code.as_str(), self.message.clone())
    }
}

impl fmt::Display for ToolFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for ToolFault {}
