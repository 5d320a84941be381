//! How a governed call fails: a code, its reason, and whether the same call may succeed later.

use std::collections::BTreeMap;
use std::fmt;

use crate::text::string_enum::string_enum;
use crate::{ErrorInfo, ErrorKind};

use super::ToolStatus;

string_enum! {
    /// What went wrong.
    #[derive(PartialOrd, Ord)]
    ToolErrorCode, "a tool code" {
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

string_enum! {
    /// Why, in one word for programs.
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
        /// An agent broke the rules of its own execution; goes with [`ToolErrorCode::RuntimePolicyInvalid`].
        AgentContractViolation = "agent_contract_violation",
    }
}

impl ToolErrorCode {
    /// The reason that goes with it unless a finer one is known.
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
pub struct ToolContractError {
    /// What went wrong.
    pub code: ToolErrorCode,
    /// Why.
    pub reason: ToolErrorReason,
    /// May the same call succeed later?
    pub retryable: bool,
    /// A sentence.
    pub message: String,
    /// Facts for programs; never a secret.
    pub details: BTreeMap<String, String>,
}

impl ToolContractError {
    /// With the reason and the flag that usually go with the code.
    pub fn new(code: ToolErrorCode, message: impl Into<String>) -> Self {
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
        Self { retryable: false, ..Self::new(ToolErrorCode::ExecutionFailed, message) }
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

impl fmt::Display for ToolContractError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for ToolContractError {}
