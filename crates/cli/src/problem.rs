//! What the program tells a person when it cannot go on: what happened, and how to fix it.

use std::fmt;
use std::io;

use provost_core::{ErrorInfo, ErrorKind, LimitKind, LimitReached, RunSummary, StopReason};
use provost_host::HostError;

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

impl Problem {
    /// What kept a run that ended in order from its answer, if anything did.
    pub(crate) fn of_end(summary: &RunSummary) -> Option<Self> {
        summary.limit.as_ref().map(Self::of_limit).or_else(|| Self::of_stop(summary.stop))
    }

    /// The limit that stopped a run, and the flag that raises it.
    fn of_limit(limit: &LimitReached) -> Self {
        let (kind, help) = match limit.limit {
            LimitKind::Wall => (ErrorKind::Timeout, Some("raise it with --timeout")),
            LimitKind::Turns => (ErrorKind::Exhausted, Some("raise it with --max-turns")),
            _ => (ErrorKind::Exhausted, None),
        };
        let name = limit.limit.as_str();
        let what =
            format!("the run stopped at its limit on {name}: {} of {}", limit.used, limit.allowed);
        Self { kind, what, help: help.map(str::to_owned) }
    }

    /// An answer that was not given, by the reason the model stopped.
    pub(crate) fn of_stop(stop: StopReason) -> Option<Self> {
        let what = match stop {
            StopReason::ContentFilter => "the provider's content filter stopped the answer",
            StopReason::Refusal => "the model declined to answer",
            _ => return None,
        };
        Some(Self::new(ErrorKind::Denied, what).help("ask differently, or choose another model"))
    }
}

/// What an answer lacks, if it was given at all.
pub(crate) fn warning(summary: &RunSummary) -> Option<&'static str> {
    match summary.stop {
        _ if summary.limit.is_some() || Problem::of_stop(summary.stop).is_some() => None,
        StopReason::MaxTokens => {
            Some("the answer is cut off: the model reached its limit on output tokens")
        }
        _ if summary.text.trim().is_empty() => Some("the model gave an empty answer"),
        _ => None,
    }
}

impl From<HostError> for Problem {
    fn from(error: HostError) -> Self {
        let HostError { kind, message, hint } = error;
        Self { kind, what: message, help: hint }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Problem {}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use provost_core::Usage;

    use super::*;

    /// A run that came to this.
    pub(crate) fn summary(stop: StopReason, text: &str) -> RunSummary {
        RunSummary {
            text: text.to_owned(),
            reasoning: String::new(),
            stop,
            limit: None,
            pending_calls: Vec::new(),
            tool_results: Vec::new(),
            usage: Usage::default(),
            cost: None,
            unpriced_calls: 0,
            turns: 1,
            tool_calls: 0,
            duration: Duration::ZERO,
            agent: "a".to_owned(),
            response_id: None,
            agents: Vec::new(),
        }
    }

    #[test]
    fn a_limit_names_the_flag_that_raises_it() {
        for (limit, code, help) in [
            (LimitKind::Turns, 7, Some("raise it with --max-turns")),
            (LimitKind::Wall, 10, Some("raise it with --timeout")),
            (LimitKind::Cost, 7, None),
        ] {
            let mut summary = summary(StopReason::Limit, "");
            summary.limit = Some(LimitReached { limit, used: "1".into(), allowed: "1".into() });
            let problem = Problem::of_end(&summary).unwrap();
            assert_eq!(problem.kind.exit_code(), code);
            assert_eq!(problem.help.as_deref(), help);
            assert_eq!(warning(&summary), None);
        }
    }

    #[test]
    fn an_answer_that_was_refused_is_denied_and_one_that_lacks_something_warns() {
        for (stop, text, code, warns) in [
            (StopReason::EndTurn, "hi", 0, None),
            (StopReason::EndTurn, "\n", 0, Some("empty")),
            (StopReason::MaxTokens, "h", 0, Some("cut off")),
            (StopReason::MaxTokens, "", 0, Some("cut off")),
            (StopReason::ContentFilter, "h", 4, None),
            (StopReason::Refusal, "", 4, None),
        ] {
            let summary = summary(stop, text);
            let problem = Problem::of_end(&summary);
            assert_eq!(problem.map_or(0, |problem| problem.kind.exit_code()), code, "{stop:?}");
            let warning = warning(&summary);
            assert_eq!(warning.is_some(), warns.is_some(), "{stop:?}");
            assert!(warning.unwrap_or_default().contains(warns.unwrap_or_default()));
        }
    }
}
