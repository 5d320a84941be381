//! Error taxonomy that all crates share.
//!
//! Each crate has its own error enum and maps each variant to an [`ErrorKind`]. Retryability, HTTP status and exit
//! code depend only on the kind and are defined here.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Category of an error. It determines how a caller can react.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The input is invalid; the same call fails again.
    Invalid,
    /// The credential is missing or invalid.
    Unauthenticated,
    /// The caller is authenticated but not permitted to do this.
    Denied,
    /// The named object does not exist.
    NotFound,
    /// The state has changed in the meantime, or the name is already in use.
    Conflict,
    /// A limit, budget or quota is used up.
    Exhausted,
    /// Too many requests. A later request may succeed.
    RateLimited,
    /// A service or a local resource is down, overloaded or unreachable.
    Unavailable,
    /// A deadline has passed.
    Timeout,
    /// A response or stored data violates its format.
    Malformed,
    /// The operation was cancelled on request.
    Cancelled,
    /// A defect in Provost.
    Bug,
}

impl ErrorKind {
    /// All kinds, in the order of their declaration.
    pub const ALL: [ErrorKind; 12] = [
        Self::Invalid,
        Self::Unauthenticated,
        Self::Denied,
        Self::NotFound,
        Self::Conflict,
        Self::Exhausted,
        Self::RateLimited,
        Self::Unavailable,
        Self::Timeout,
        Self::Malformed,
        Self::Cancelled,
        Self::Bug,
    ];

    /// Returns true if the same call may succeed later without any change.
    pub const fn retryable(self) -> bool {
        matches!(self, Self::RateLimited | Self::Unavailable | Self::Timeout)
    }

    /// Returns the HTTP status of a response with this error.
    pub const fn http_status(self) -> u16 {
        match self {
            Self::Invalid => 400,
            Self::Unauthenticated => 401,
            Self::Denied => 403,
            Self::NotFound => 404,
            Self::Conflict => 409,
            Self::Exhausted => 422,
            Self::RateLimited => 429,
            Self::Unavailable => 503,
            Self::Timeout => 504,
            Self::Malformed => 502,
            Self::Cancelled => 499,
            Self::Bug => 500,
        }
    }

    /// Returns the exit code of a command. 0 is success, 1 is reserved for a negative result, and 2 is the shell
    /// convention for invalid usage.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Invalid => 2,
            Self::Unauthenticated => 3,
            Self::Denied => 4,
            Self::NotFound => 5,
            Self::Conflict => 6,
            Self::Exhausted => 7,
            Self::RateLimited => 8,
            Self::Unavailable => 9,
            Self::Timeout => 10,
            Self::Malformed => 11,
            Self::Cancelled => 130,
            Self::Bug => 70,
        }
    }

    /// Returns the stable name, as it appears in events, problem documents and logs.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Invalid => "invalid",
            Self::Unauthenticated => "unauthenticated",
            Self::Denied => "denied",
            Self::NotFound => "not_found",
            Self::Conflict => "conflict",
            Self::Exhausted => "exhausted",
            Self::RateLimited => "rate_limited",
            Self::Unavailable => "unavailable",
            Self::Timeout => "timeout",
            Self::Malformed => "malformed",
            Self::Cancelled => "cancelled",
            Self::Bug => "bug",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error as data, for process boundaries and stored events.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error, JsonSchema)]
#[error("{message}")]
pub struct ErrorInfo {
    /// The category.
    pub kind: ErrorKind,
    /// Stable code, finer than the kind, such as `context_length`.
    pub code: String,
    /// Message for a person: the cause and, if known, the remedy.
    pub message: String,
}

impl ErrorInfo {
    /// Creates an error from its kind, code and message.
    pub fn new(kind: ErrorKind, code: impl Into<String>, message: impl Into<String>) -> Self {
        Self { kind, code: code.into(), message: message.into() }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn exit_codes_are_distinct_and_leave_zero_and_one_alone() {
        let codes: HashSet<u8> = ErrorKind::ALL.iter().map(|kind| kind.exit_code()).collect();
        assert_eq!(codes.len(), ErrorKind::ALL.len());
        assert!(!codes.contains(&0) && !codes.contains(&1));
    }

    #[test]
    fn names_match_the_serialized_form() {
        for kind in ErrorKind::ALL {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.as_str());
        }
    }

    #[test]
    fn only_passing_faults_are_retryable() {
        let retryable: Vec<_> =
            ErrorKind::ALL.into_iter().filter(|kind| kind.retryable()).collect();
        assert_eq!(retryable, [ErrorKind::RateLimited, ErrorKind::Unavailable, ErrorKind::Timeout]);
    }
}
