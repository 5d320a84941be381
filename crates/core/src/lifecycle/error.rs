//! Why a piece of work is refused.
//!
//! Each refusal has a stable code for programs, an [`ErrorKind`] for whoever must react, and a sentence for people.
//! What exists in another namespace is always "not found": the answer must not tell that it is there.

use crate::execution_policy::PolicyError;
use crate::scheduling::Epoch;
use crate::text::first_chars;
use crate::{ErrorInfo, ErrorKind, Timestamp};

/// Error texts never repeat more of a stranger's input than this.
const QUOTED_CHARS_MAX: usize = 64;

/// The beginning of a text, for an error that quotes it.
pub(crate) fn quoted(text: &str) -> String {
    first_chars(text, QUOTED_CHARS_MAX).to_owned()
}

/// A text that is not a word of a closed set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}: use one of {}", .known.join(", "))]
pub struct UnknownWord {
    /// What was wanted, with its article.
    pub what: &'static str,
    /// The beginning of what was given.
    pub text: String,
    /// The words that would do.
    pub known: &'static [&'static str],
}

impl UnknownWord {
    pub(crate) fn new(what: &'static str, text: &str, known: &'static [&'static str]) -> Self {
        Self { what, text: quoted(text), known }
    }
}

/// An event that a state does not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a {machine} that is `{from}` does not take `{event}`{}", if *.terminal { ": it has ended" } else { "" })]
pub struct Illegal {
    /// Which machine.
    pub machine: &'static str,
    /// The state it is in.
    pub from: &'static str,
    /// What was to happen to it.
    pub event: &'static str,
    /// True if the state is an end: nothing changes it any more.
    pub terminal: bool,
}

/// Why a piece of work is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkError {
    /// Something the caller sent is wrong.
    #[error("{path}: {problem}; {fix}")]
    Invalid {
        /// Where, such as `command.message`.
        path: String,
        /// What is wrong with it.
        problem: String,
        /// What to do.
        fix: String,
    },
    /// Something the caller sent is too big.
    #[error("{path} has {bytes} bytes, {max} are allowed: send less, or a reference to it")]
    TooLarge {
        /// Where.
        path: String,
        /// How big it is.
        bytes: usize,
        /// How big it may be.
        max: usize,
    },
    /// Nothing of that name, as far as this caller may know.
    #[error("there is no {what} `{id}`: check the id and the namespace")]
    NotFound {
        /// What was looked for.
        what: &'static str,
        /// Its id or name as it was given.
        id: String,
    },
    /// There is one already.
    #[error("there is a {what} `{id}` already: use another name, or change that one")]
    Exists {
        /// What was to be made.
        what: &'static str,
        /// Its id or name as it was given.
        id: String,
    },
    /// It is not what the caller last saw.
    #[error("{what} `{id}` is at revision {current} by now: read it again, then change that")]
    Stale {
        /// What was to be changed.
        what: &'static str,
        /// Its id or name.
        id: String,
        /// Its revision.
        current: u64,
    },
    /// The key was used before, for something else.
    #[error("the idempotency key `{key}` was used for another request: use a new key")]
    IdempotencyMismatch {
        /// The key.
        key: String,
    },
    /// Somebody else is at it.
    #[error("{what} is busy: try again when it is free")]
    Busy {
        /// What is busy, and who holds it where that may be told.
        what: String,
        /// Until when at least.
        until: Option<Timestamp>,
    },
    /// No room for more.
    #[error("{what} is full, {cap} are allowed: wait until some are done")]
    Full {
        /// What is full.
        what: &'static str,
        /// How many fit.
        cap: usize,
    },
    /// The writer lost its lease; another may be writing.
    #[error("epoch {held} no longer owns this run, {current} is current: stop and write nothing")]
    Fenced {
        /// The writer's epoch.
        held: Epoch,
        /// The epoch that counts.
        current: Epoch,
    },
    /// The time for it is over.
    #[error("{what} has expired: ask again")]
    Expired {
        /// What.
        what: &'static str,
    },
    /// What would run is not what was approved.
    #[error("the plan changed after it was approved: ask for approval of the new one")]
    PlanChanged,
    /// Only certain people decide this, and this is none of them.
    #[error("`{by}` may not decide this: ask {}", if .of.is_empty() { "somebody with a name" } else { .of.as_str() })]
    NotApprover {
        /// Who wanted to.
        by: String,
        /// Who may.
        of: String,
    },
    /// Whoever started the run may not decide this.
    #[error("`{by}` started the run and may not decide this: somebody else must")]
    OwnApproval {
        /// Who wanted to.
        by: String,
    },
    /// They have said something else before.
    #[error("`{by}` has said {said} already: the first word counts")]
    VoteConflict {
        /// Who.
        by: String,
        /// What they said.
        said: &'static str,
    },
    /// The execution policy is wrong or cannot be honoured.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The state does not allow it.
    #[error(transparent)]
    Illegal(#[from] Illegal),
}

impl WorkError {
    /// Something at `path` is wrong, and how to mend it.
    pub fn invalid(path: &str, problem: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Invalid { path: path.to_owned(), problem: problem.into(), fix: fix.into() }
    }

    /// There is no such thing.
    pub fn not_found(what: &'static str, id: impl std::fmt::Display) -> Self {
        Self::NotFound { what, id: quoted(&id.to_string()) }
    }

    /// There is one already.
    pub fn exists(what: &'static str, id: impl std::fmt::Display) -> Self {
        Self::Exists { what, id: quoted(&id.to_string()) }
    }

    /// Somebody who is none of these wants to decide.
    pub(crate) fn not_approver(by: &str, of: &[String]) -> Self {
        let names: Vec<String> = of.iter().map(|name| format!("`{}`", quoted(name))).collect();
        Self::NotApprover { by: quoted(by), of: names.join(", ") }
    }

    /// Whoever started the run wants to decide.
    pub(crate) fn own_approval(by: &str) -> Self {
        Self::OwnApproval { by: quoted(by) }
    }

    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid",
            Self::TooLarge { .. } => "payload_too_large",
            Self::NotFound { .. } => "not_found",
            Self::Exists { .. } => "exists",
            Self::Stale { .. } => "stale",
            Self::IdempotencyMismatch { .. } => "idempotency_mismatch",
            Self::Busy { .. } => "busy",
            Self::Full { .. } => "full",
            Self::Fenced { .. } => "fenced",
            Self::Expired { .. } => "expired",
            Self::PlanChanged => "plan_changed",
            Self::NotApprover { .. } => "not_an_approver",
            Self::OwnApproval { .. } => "own_approval",
            Self::VoteConflict { .. } => "vote_conflict",
            Self::Policy(error) => error.code(),
            Self::Illegal(Illegal { terminal: true, .. }) => "already_terminal",
            Self::Illegal(_) => "illegal_transition",
        }
    }

    /// The shared kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid { .. } | Self::TooLarge { .. } | Self::Policy(_) => ErrorKind::Invalid,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Full { .. } => ErrorKind::Exhausted,
            Self::NotApprover { .. } | Self::OwnApproval { .. } => ErrorKind::Denied,
            Self::Exists { .. }
            | Self::Stale { .. }
            | Self::IdempotencyMismatch { .. }
            | Self::Busy { .. }
            | Self::Fenced { .. }
            | Self::Expired { .. }
            | Self::PlanChanged
            | Self::VoteConflict { .. }
            | Self::Illegal(_) => ErrorKind::Conflict,
        }
    }

    /// True if a repeat with the same idempotency key gets the same refusal; what may pass is never remembered.
    pub fn is_remembered(&self) -> bool {
        matches!(self, Self::Policy(_))
    }

    /// The error as data.
    pub fn info(&self) -> ErrorInfo {
        ErrorInfo::new(self.kind(), self.code(), self.to_string())
    }
}
