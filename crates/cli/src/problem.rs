//! What the program tells a person when it cannot go on: what happened, and how to fix it.

use std::fmt;
use std::io;

use provost_core::{ErrorInfo, ErrorKind};

/// A failure with a way out. Its kind decides the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Problem {
    /// What sort of failure.
    pub(crate) kind: ErrorKind,
    /// What happened.
    pub(crate) what: String,
    /// How to fix it, where that is known.
    pub(crate) help: Option<String>,
}

impl Problem {
    /// A problem without advice.
    pub(crate) fn new(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), help: None }
    }

    /// The caller's input is wrong.
    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, what)
    }

    /// A file could not be read or written.
    pub(crate) fn io(what: impl fmt::Display, error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied => ErrorKind::Denied,
            io::ErrorKind::AlreadyExists => ErrorKind::Conflict,
            _ => ErrorKind::Unavailable,
        };
        Self::new(kind, format!("{what}: {error}"))
    }

    /// Adds the way out.
    #[must_use]
    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    /// The error of a run, with the advice that its kind allows.
    pub(crate) fn of_run(error: &ErrorInfo) -> Self {
        let help = match error.kind {
            // The session's own errors say which one; the provider has nothing to do with them.
            ErrorKind::Conflict if error.code == "session" => {
                Some("another program uses this session: try again, or choose another --session")
            }
            _ if error.code == "session" => {
                Some("choose another --session, or repair the file it names")
            }
            ErrorKind::Unauthenticated => {
                Some("check the key in the environment; `provost doctor` shows which one is used")
            }
            ErrorKind::NotFound => {
                Some("check the model's name, or choose another with --model provider/model")
            }
            ErrorKind::RateLimited => Some("wait a little and try again"),
            ErrorKind::Unavailable | ErrorKind::Timeout => {
                Some("check the connection with `provost doctor`, or choose another model")
            }
            ErrorKind::Exhausted => Some("raise the limit, or begin a shorter conversation"),
            ErrorKind::Malformed => {
                Some("the provider's answer was not understood; check --base-url")
            }
            _ => None,
        };
        Self { kind: error.kind, what: error.message.clone(), help: help.map(str::to_owned) }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Problem {}
