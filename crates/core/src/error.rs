//! The one error taxonomy.
//!
//! Each crate has its own error enum; each of its variants has an [`ErrorKind`].
//! Whether to retry, which HTTP status to answer and which exit code to return follow from the kind, here and nowhere else.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What sort of failure this is, for whoever must react to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ErrorKind {
    /// The caller's input is wrong; the same call fails again.
    Invalid,
    /// No credential, or one that is not valid.
    Unauthenticated,
    /// The caller is known but may not do this.
    Denied,
    /// What was named does not exist.
    NotFound,
    /// The state changed meanwhile, or the name is taken.
    Conflict,
    /// A limit, budget or quota is used up.
    Exhausted,
    /// Too many requests for now; the other side says to come back later.
    RateLimited,
    /// The other side is down, overloaded or out of reach.
    Unavailable,
    /// A deadline passed.
    Timeout,
    /// The other side answered something that is not its own protocol.
    Malformed,
    /// Somebody asked to stop.
    Cancelled,
    /// A defect of Provost itself.
    Bug,
}

impl ErrorKind {
    /// Every kind, for tables and tests.
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

    /// True if the same call may succeed later without any change.
    pub const fn retryable(self) -> bool {
        matches!(self, Self::RateLimited | Self::Unavailable | Self::Timeout)
    }

    /// The HTTP status a server answers.
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

    /// The exit code of a command. Zero is success, 1 is left for "the answer is no", 2 is what shells expect of bad usage.
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

    /// The stable name: what appears in events, problem documents and logs.
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

/// An error as data: what crosses a process boundary or is kept in an event.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error, JsonSchema)]
#[error("{message}")]
pub struct ErrorInfo {
    /// What sort of failure.
    pub kind: ErrorKind,
    /// A stable, finer code such as `context_length`.
    pub code: String,
    /// A sentence for a person: what happened and, where known, what to do.
    pub message: String,
}

impl ErrorInfo {
    /// Builds one from its three parts.
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
