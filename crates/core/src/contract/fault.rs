//! Errors of declared tool calls: a code, a reason and whether a retry may succeed.

use std::collections::BTreeMap;
use std::fmt;

use crate::text::string_enum::string_enum;
use crate::{ErrorInfo, ErrorKind};

use super::ToolStatus;

string_enum! {
    /// Error code of a tool call.
    #[derive(PartialOrd, Ord)]
    ToolErrorCode, "a tool code" {
        /// The request is invalid.
        InvalidInput = "invalid_input",
        /// The tool is unknown or has another type.
        UnsupportedTool = "unsupported_tool",
        /// The tool's definition cannot be enforced.
        RuntimePolicyInvalid = "runtime_policy_invalid",
        /// The required isolation is not available.
        IsolationUnavailable = "isolation_unavailable",
        /// A policy denies the call.
        PermissionDenied = "permission_denied",
        /// A required secret cannot be resolved.
        SecretResolutionFailed = "secret_resolution_failed",
        /// The call timed out.
        Timeout = "timeout",
        /// The call was cancelled.
        Canceled = "canceled",
        /// The execution failed.
        ExecutionFailed = "execution_failed",
        /// The credential has expired.
        AuthExpired = "auth_expired",
        /// The credential is invalid.
        AuthInvalid = "auth_invalid",
        /// The credential lacks the permission.
        AuthForbidden = "auth_forbidden",
        /// An approval is pending.
        ApprovalPending = "approval_pending",
        /// An approver denied the call.
        ApprovalDenied = "approval_denied",
        /// The approval expired.
        ApprovalTimeout = "approval_timeout",
    }
}

string_enum! {
    /// Machine-readable reason of an error.
    #[derive(PartialOrd, Ord)]
    ToolErrorReason, "a tool reason" {
        /// For [`ToolErrorCode::InvalidInput`].
        InvalidInput = "tool_invalid_input",
        /// For [`ToolErrorCode::UnsupportedTool`].
        Unsupported = "tool_unsupported",
        /// For [`ToolErrorCode::RuntimePolicyInvalid`].
        RuntimePolicyInvalid = "tool_runtime_policy_invalid",
        /// For [`ToolErrorCode::IsolationUnavailable`].
        IsolationUnavailable = "tool_isolation_unavailable",
        /// For [`ToolErrorCode::PermissionDenied`].
        PermissionDenied = "tool_permission_denied",
        /// For [`ToolErrorCode::SecretResolutionFailed`].
        SecretResolutionFailed = "tool_secret_resolution_failed",
        /// For [`ToolErrorCode::Timeout`].
        ExecutionTimeout = "tool_execution_timeout",
        /// For [`ToolErrorCode::Canceled`].
        ExecutionCanceled = "tool_execution_canceled",
        /// For [`ToolErrorCode::ExecutionFailed`].
        BackendFailure = "tool_backend_failure",
        /// For [`ToolErrorCode::AuthExpired`].
        AuthExpired = "tool_auth_expired",
        /// For [`ToolErrorCode::AuthInvalid`].
        AuthInvalid = "tool_auth_invalid",
        /// For [`ToolErrorCode::AuthForbidden`].
        AuthForbidden = "tool_auth_forbidden",
        /// For [`ToolErrorCode::ApprovalPending`].
        ApprovalPending = "tool_approval_pending",
        /// For [`ToolErrorCode::ApprovalDenied`].
        ApprovalDenied = "tool_approval_denied",
        /// For [`ToolErrorCode::ApprovalTimeout`].
        ApprovalTimeout = "tool_approval_timeout",
        /// An agent violated the contract of its own execution. Has the code [`ToolErrorCode::RuntimePolicyInvalid`].
        AgentContractViolation = "agent_contract_violation",
    }
}

impl ToolErrorCode {
    /// Returns the default reason of the code.
    pub const fn reason(self) -> ToolErrorReason {
        match self {
            Self::InvalidInput => ToolErrorReason::InvalidInput,
            Self::UnsupportedTool => ToolErrorReason::Unsupported,
            Self::RuntimePolicyInvalid => ToolErrorReason::RuntimePolicyInvalid,
            Self::IsolationUnavailable => ToolErrorReason::IsolationUnavailable,
            Self::PermissionDenied => ToolErrorReason::PermissionDenied,
            Self::SecretResolutionFailed => ToolErrorReason::SecretResolutionFailed,
            Self::Timeout => ToolErrorReason::ExecutionTimeout,
            Self::Canceled => ToolErrorReason::ExecutionCanceled,
            Self::ExecutionFailed => ToolErrorReason::BackendFailure,
            Self::AuthExpired => ToolErrorReason::AuthExpired,
            Self::AuthInvalid => ToolErrorReason::AuthInvalid,
            Self::AuthForbidden => ToolErrorReason::AuthForbidden,
            Self::ApprovalPending => ToolErrorReason::ApprovalPending,
            Self::ApprovalDenied => ToolErrorReason::ApprovalDenied,
            Self::ApprovalTimeout => ToolErrorReason::ApprovalTimeout,
        }
    }

    /// Returns the default retryability of the code: true if the same call may succeed later.
    pub const fn retryable(self) -> bool {
        matches!(self, Self::Timeout | Self::ExecutionFailed)
    }

    /// Returns the response status of the code.
    pub const fn status(self) -> ToolStatus {
        match self {
            Self::PermissionDenied => ToolStatus::Denied,
            _ => ToolStatus::Error,
        }
    }

    /// Returns the general error kind of the code.
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

/// Error of a declared tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ToolContractError {
    /// The error code.
    pub code: ToolErrorCode,
    /// The reason.
    pub reason: ToolErrorReason,
    /// True if the same call may succeed later.
    pub retryable: bool,
    /// Description of the error.
    pub message: String,
    /// Details for programs. Never contains secrets.
    pub details: BTreeMap<String, String>,
}

impl ToolContractError {
    /// Creates an error with the default reason and retryability of the code.
    pub fn new(code: ToolErrorCode, message: impl Into<String>) -> Self {
        Self {
            code,
            reason: code.reason(),
            retryable: code.retryable(),
            message: message.into(),
            details: BTreeMap::new(),
        }
    }

    /// Creates an execution failure that a retry cannot fix.
    pub fn final_failure(message: impl Into<String>) -> Self {
        Self { retryable: false, ..Self::new(ToolErrorCode::ExecutionFailed, message) }
    }

    /// Adds a detail. A detail with the same key is replaced.
    #[must_use]
    pub fn detail(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.details.insert(key.into(), value.into());
        self
    }

    /// Converts the error to the general error type.
    pub fn info(&self) -> ErrorInfo {
        ErrorInfo::new(self.code.kind(), self.code.as_str(), self.message.clone())
    }
}

impl fmt::Display for ToolContractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for ToolContractError {}
