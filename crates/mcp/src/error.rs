//! Errors of MCP servers.

use std::time::Duration;

use provost_core::ErrorKind;
use provost_core::text::truncate_bytes;

use crate::limits::DETAIL_BYTES_MAX;

/// Error of a connection to an MCP server or of a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The definition of the server is invalid.
    #[error("invalid definition of MCP server `{server}`: {problem}")]
    Definition {
        /// Name of the server.
        server: String,
        /// Problem, and how to solve it.
        problem: String,
    },
    /// The server could not be started or reached, or the handshake failed.
    #[error("cannot connect to MCP server `{server}`: {reason}")]
    Connect {
        /// Name of the server.
        server: String,
        /// Reason, with the end of the server's standard error.
        reason: String,
    },
    /// The isolation that the server requires is not available. The server was not started.
    #[error("MCP server `{server}` cannot be isolated: {reason}")]
    Isolation {
        /// Name of the server.
        server: String,
        /// The missing part.
        reason: String,
    },
    /// The server requires authorization, and no token could be obtained. The request was not executed.
    #[error("MCP server `{server}` requires authorization: {reason}")]
    Unauthorized {
        /// Name of the server.
        server: String,
        /// Reason why there is no token, or the message of the server.
        reason: String,
        /// True if the server rejected the token that was sent. False if no token was sent.
        is_token_refused: bool,
    },
    /// The server denied access. The request was not executed.
    #[error("MCP server `{server}` denied access: {reason}")]
    Forbidden {
        /// Name of the server.
        server: String,
        /// Message of the server.
        reason: String,
    },
    /// The server rejected the request because of a rate limit. The request was not executed.
    #[error("MCP server `{server}` is busy: {reason}")]
    Busy {
        /// Name of the server.
        server: String,
        /// Time that the server asks to wait. `None` if it names none.
        wait: Option<Duration>,
        /// Message of the server.
        reason: String,
    },
    /// The server failed recently and is in cooldown.
    #[error("MCP server `{server}` failed and is tried again in {} s: {reason}", wait.as_secs_f32().ceil())]
    CoolingDown {
        /// Name of the server.
        server: String,
        /// Remaining cooldown.
        wait: Duration,
        /// Reason of the failure.
        reason: String,
    },
    /// An operation timed out.
    #[error("MCP server `{server}` did not {what} within {} s", after.as_secs_f32())]
    Timeout {
        /// Name of the server.
        server: String,
        /// Operation that timed out.
        what: String,
        /// The timeout.
        after: Duration,
    },
    /// The call was sent, and its outcome is unknown.
    #[error(
        "the call of `{tool}` on MCP server `{server}` was interrupted, and it is not known whether it was executed; \
         check before you call it again: {reason}"
    )]
    Unknown {
        /// Name of the server.
        server: String,
        /// Name of the tool.
        tool: String,
        /// Reason of the interruption.
        reason: String,
    },
    /// The server responded with an error.
    #[error("MCP server `{server}` returned an error: {message} (code {code})")]
    Refused {
        /// Name of the server.
        server: String,
        /// Code of the error.
        code: i32,
        /// Message of the error.
        message: String,
    },
    /// The response violates the protocol, or is too large.
    #[error("MCP server `{server}` violates the protocol: {problem}")]
    Malformed {
        /// Name of the server.
        server: String,
        /// The violation.
        problem: String,
    },
    /// The run was stopped, and the server was notified.
    #[error("the call of MCP server `{server}` was stopped")]
    Stopped {
        /// Name of the server.
        server: String,
    },
    /// The pool is closed.
    #[error("the pool of MCP servers is closed")]
    Closed,
}

impl Error {
    /// Returns the error kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Definition { .. } | Self::Refused { .. } => ErrorKind::Invalid,
            Self::Connect { .. }
            | Self::Isolation { .. }
            | Self::CoolingDown { .. }
            | Self::Unknown { .. }
            | Self::Closed => ErrorKind::Unavailable,
            Self::Timeout { .. } => ErrorKind::Timeout,
            Self::Malformed { .. } => ErrorKind::Malformed,
            Self::Stopped { .. } => ErrorKind::Cancelled,
            Self::Unauthorized { .. } => ErrorKind::Unauthenticated,
            Self::Forbidden { .. } => ErrorKind::Denied,
            Self::Busy { .. } => ErrorKind::RateLimited,
        }
    }
}

/// Cuts a text from a server to the maximum length in error messages.
pub(crate) fn excerpt(text: impl Into<String>) -> String {
    truncate_bytes(&text.into(), DETAIL_BYTES_MAX)
}
