//! What goes wrong between us and a server.

use std::time::Duration;

use provost_core::ErrorKind;
use provost_core::text::truncate_bytes;

use crate::limits::DETAIL_BYTES_MAX;

/// What goes wrong between us and a server.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A definition that cannot work.
    #[error("MCP server `{server}` is not usable: {problem}")]
    Definition {
        /// The server.
        server: String,
        /// What is wrong, and how it must be.
        problem: String,
    },
    /// The server could not be started or reached, or did not greet properly.
    #[error("MCP server `{server}` cannot be reached: {reason}")]
    Connect {
        /// The server.
        server: String,
        /// What happened, with the end of what it wrote to its standard error.
        reason: String,
    },
    /// The isolation that the server's program demands is not there. Nothing has run.
    #[error("MCP server `{server}` cannot be isolated: {reason}")]
    Isolation {
        /// The server.
        server: String,
        /// What is missing.
        reason: String,
    },
    /// The server does not know who we are, and no token could be had. Nothing was done.
    #[error("MCP server `{server}` wants authorization: {reason}")]
    Unauthorized {
        /// The server.
        server: String,
        /// Why there is no token, or what the server says.
        reason: String,
        /// True if the server says that the token which was sent is not valid, and not that there was none.
        is_token_refused: bool,
    },
    /// The server knows who we are, and we may not do this. Nothing was done.
    #[error("MCP server `{server}` does not allow it: {reason}")]
    Forbidden {
        /// The server.
        server: String,
        /// What it says.
        reason: String,
    },
    /// The server wants us to come less often. Nothing was done.
    #[error("MCP server `{server}` has no time for us now: {reason}")]
    Busy {
        /// The server.
        server: String,
        /// How long it asks us to wait, if it says so.
        wait: Option<Duration>,
        /// What it says.
        reason: String,
    },
    /// The server failed a moment ago and is left alone for a while.
    #[error("MCP server `{server}` is tried again in {} s: {reason}", wait.as_secs_f32().ceil())]
    Resting {
        /// The server.
        server: String,
        /// How long it is left alone.
        wait: Duration,
        /// Why it failed.
        reason: String,
    },
    /// A stage took too long.
    #[error("MCP server `{server}` did not {what} within {} s", after.as_secs_f32())]
    Timeout {
        /// The server.
        server: String,
        /// What it did not do.
        what: String,
        /// How long it had.
        after: Duration,
    },
    /// The call was sent and its outcome is not known.
    #[error(
        "`{tool}` of MCP server `{server}` was cut off and it is not known whether it happened; \
         check before you call it again: {reason}"
    )]
    Unknown {
        /// The server.
        server: String,
        /// The tool.
        tool: String,
        /// What happened.
        reason: String,
    },
    /// The server answered with an error.
    #[error("MCP server `{server}` refused: {message} (code {code})")]
    Refused {
        /// The server.
        server: String,
        /// The code of the error.
        code: i32,
        /// What it says.
        message: String,
    },
    /// The server answered something that is not the protocol, or too much of it.
    #[error("MCP server `{server}` does not keep to the protocol: {problem}")]
    Malformed {
        /// The server.
        server: String,
        /// What it did.
        problem: String,
    },
    /// The run was stopped, and the server was told.
    #[error("the call of MCP server `{server}` was stopped")]
    Stopped {
        /// The server.
        server: String,
    },
    /// The pool is closed.
    #[error("the pool of MCP servers is closed")]
    Closed,
}

impl Error {
    /// What sort of failure this is.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Definition { .. } | Self::Refused { .. } => ErrorKind::Invalid,
            Self::Connect { .. }
            | Self::Isolation { .. }
            | Self::Resting { .. }
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

/// A text of foreign origin, short enough for an error.
pub(crate) fn brief(text: impl Into<String>) -> String {
    truncate_bytes(&text.into(), DETAIL_BYTES_MAX)
}
