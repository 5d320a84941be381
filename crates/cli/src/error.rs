//! Errors of the command line, with a hint for the user.

use std::fmt;
use std::io;

use provost_core::{ErrorInfo, ErrorKind, LimitKind, LimitReached, RunSummary, StopReason};
use provost_host::HostError;

/// Error of a command. Its kind determines the exit code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CliError {
    /// Kind of the error.
    pub(crate) kind: ErrorKind,
    /// Description of the error.
    pub(crate) message: String,
    /// Suggestion for the user. `None` if there is none.
    pub(crate) hint: Option<String>,
}

impl CliError {
    /// Creates an error without a hint.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into(), hint: None }
    }

    /// Creates an error about invalid input.
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Invalid, message)
    }

    /// Creates an error from an I/O error.
    pub(crate) fn io(message: impl fmt::Display, error: &io::Error) -> Self {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            io::ErrorKind::PermissionDenied => ErrorKind::Denied,
            io::ErrorKind::AlreadyExists => ErrorKind::Conflict,
            _ => ErrorKind::Unavailable,
        };
        Self::new(kind, format!("{message}: {error}"))
    }

    /// Adds a hint.
    #[must_use]
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Converts the error of a run, with a hint for its kind.
    pub(crate) fn of_run(error: &ErrorInfo) -> Self {
        let hint = match error.kind {
            // These kinds have another meaning for the session than for the provider.
            ErrorKind::Conflict if error.code == "session" => {
                Some("another program uses this session: try again, or use another --session")
            }
            _ if error.code == "session" => Some("use another --session, or repair its file"),
            ErrorKind::Unauthenticated => {
                Some("check the key in the environment; `provost doctor` shows which one is used")
            }
            ErrorKind::NotFound => Some(
                "check the name of the model, or select another model with --model provider/model",
            ),
            ErrorKind::RateLimited => Some("try again later"),
            ErrorKind::Unavailable | ErrorKind::Timeout => {
                Some("check the connection with `provost doctor`, or use another model")
            }
            ErrorKind::Exhausted => Some("raise the limit, or start a new conversation"),
            ErrorKind::Malformed => {
                Some("the response of the provider is malformed; check --base-url")
            }
            _ => None,
        };
        Self { kind: error.kind, message: error.message.clone(), hint: hint.map(str::to_owned) }
    }
}

impl CliError {
    /// Returns the error of a run that ended without a complete answer: a reached limit or a refusal. `None` if the
    /// answer is complete.
    pub(crate) fn of_end(summary: &RunSummary) -> Option<Self> {
        summary.limit.as_ref().map(Self::of_limit).or_else(|| Self::of_stop(summary.stop))
    }

    /// Returns the error of a reached limit, with the flag that raises the limit.
    fn of_limit(limit: &LimitReached) -> Self {
        let (kind, hint) = match limit.limit {
            LimitKind::Wall => (ErrorKind::Timeout, Some("raise it with --timeout")),
            LimitKind::Turns => (ErrorKind::Exhausted, Some("raise it with --max-turns")),
            _ => (ErrorKind::Exhausted, None),
        };
        let name = limit.limit.as_str();
        let message =
            format!("the run stopped at its limit on {name}: {} of {}", limit.used, limit.allowed);
        Self { kind, message, hint: hint.map(str::to_owned) }
    }

    /// Returns the error of an answer that the provider or the model refused. `None` for another stop reason.
    pub(crate) fn of_stop(stop: StopReason) -> Option<Self> {
        let message = match stop {
            StopReason::ContentFilter => "the provider's content filter stopped the answer",
            StopReason::Refusal => "the model declined to answer",
            _ => return None,
        };
        Some(
            Self::new(ErrorKind::Denied, message).hint("rephrase the prompt, or use another model"),
        )
    }
}

/// Returns a warning about an incomplete or empty answer. `None` if the answer is complete.
pub(crate) fn warning(summary: &RunSummary) -> Option<&'static str> {
    match summary.stop {
        _ if summary.limit.is_some() || CliError::of_stop(summary.stop).is_some() => None,
        StopReason::MaxTokens => {
            Some("the answer is cut off: the model reached its limit on output tokens")
        }
        _ if summary.text.trim().is_empty() => Some("the model returned an empty answer"),
        _ => None,
    }
}

impl From<HostError> for CliError {
    fn from(error: HostError) -> Self {
        let HostError { kind, message, hint } = error;
        Self { kind, message, hint }
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for CliError {}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use provost_core::Usage;

    use super::*;

    /// Returns the summary of a run with this stop reason and text.
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
        for (limit, code, hint) in [
            (LimitKind::Turns, 7, Some("raise it with --max-turns")),
            (LimitKind::Wall, 10, Some("raise it with --timeout")),
            (LimitKind::Cost, 7, None),
        ] {
            let mut summary = summary(StopReason::Limit, "");
            summary.limit = Some(LimitReached { limit, used: "1".into(), allowed: "1".into() });
            let problem = CliError::of_end(&summary).unwrap();
            assert_eq!(problem.kind.exit_code(), code);
            assert_eq!(problem.hint.as_deref(), hint);
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
            let problem = CliError::of_end(&summary);
            assert_eq!(problem.map_or(0, |problem| problem.kind.exit_code()), code, "{stop:?}");
            let warning = warning(&summary);
            assert_eq!(warning.is_some(), warns.is_some(), "{stop:?}");
            assert!(warning.unwrap_or_default().contains(warns.unwrap_or_default()));
        }
    }
}
