//! Errors of requests to the engine.
//!
//! Each error has a stable code for programs, an [`ErrorKind`] and a message for people. An object of another
//! namespace is reported as not found, so that the response does not reveal its existence.

use crate::execution_policy::PolicyError;
use crate::scheduling::Epoch;
use crate::text::first_chars;
use crate::{ErrorInfo, ErrorKind, Timestamp};

/// Maximum number of characters of untrusted input in an error message.
const QUOTED_CHARS_MAX: usize = 64;

/// Truncates a text for quotation in an error message.
pub(crate) fn quoted(text: &str) -> String {
    first_chars(text, QUOTED_CHARS_MAX).to_owned()
}

/// Error for a text that is not a value of a string enum.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not {what}: use one of {}", .known.join(", "))]
pub struct ParseEnumError {
    /// Name of the enum, with its article.
    pub what: &'static str,
    /// Start of the rejected text.
    pub text: String,
    /// The valid texts.
    pub known: &'static [&'static str],
}

impl ParseEnumError {
    /// Creates the error of a text that is none of the `known` values.
    pub(crate) fn new(what: &'static str, text: &str, known: &'static [&'static str]) -> Self {
        Self { what, text: quoted(text), known }
    }
}

/// Error for a transition that the current state does not permit.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a {machine} that is `{from}` does not take `{transition}`{}", if *terminal { ": it has ended" } else { "" })]
pub struct InvalidTransition {
    /// Name of the state machine.
    pub machine: &'static str,
    /// The current state.
    pub from: &'static str,
    /// The rejected transition.
    pub transition: &'static str,
    /// True if the state is final.
    pub terminal: bool,
}

/// Reason why a request was rejected.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// A field of the request is invalid.
    #[error("{path}: {problem}; {fix}")]
    Invalid {
        /// Path of the field, such as `command.message`.
        path: String,
        /// Description of the problem.
        problem: String,
        /// Suggested remedy.
        fix: String,
    },
    /// A field of the request is too large.
    #[error("{path} has {bytes} bytes, {max} are allowed: send less, or a reference to it")]
    TooLarge {
        /// Path of the field.
        path: String,
        /// Its size.
        bytes: usize,
        /// The maximum size.
        max: usize,
    },
    /// The object does not exist in a namespace that the caller can see.
    #[error("there is no {what} `{id}`: check the id and the namespace")]
    NotFound {
        /// Type of the object.
        what: &'static str,
        /// Id or name from the request.
        id: String,
    },
    /// An object with this name exists already.
    #[error("there is a {what} `{id}` already: use another name, or change that one")]
    AlreadyExists {
        /// Type of the object.
        what: &'static str,
        /// Id or name from the request.
        id: String,
    },
    /// The object has changed since the caller read it.
    #[error("{what} `{id}` is at revision {current} by now: read it again, then change that")]
    RevisionConflict {
        /// Type of the object.
        what: &'static str,
        /// Id or name of the object.
        id: String,
        /// The current revision.
        current: u64,
    },
    /// The idempotency key was used before for another request.
    #[error("the idempotency key `{key}` was used for another request: use a new key")]
    IdempotencyMismatch {
        /// The idempotency key.
        key: String,
    },
    /// The object is in use.
    #[error("{what} is busy: try again when it is free")]
    Busy {
        /// The object and, if the caller may know it, its user.
        what: String,
        /// Earliest time at which it can be free, if known.
        until: Option<Timestamp>,
    },
    /// A limit on the number of objects is reached.
    #[error("{what} is full, {cap} are allowed: wait until some are done")]
    LimitExceeded {
        /// The limited collection.
        what: &'static str,
        /// The maximum number.
        cap: usize,
    },
    /// The writer lost its lease. Another worker may be writing.
    #[error("epoch {held} no longer owns this run, {current} is current: stop and write nothing")]
    Fenced {
        /// The epoch of the writer.
        held: Epoch,
        /// The current epoch.
        current: Epoch,
    },
    /// The deadline has passed.
    #[error("{what} has expired: ask again")]
    Expired {
        /// The expired object.
        what: &'static str,
    },
    /// The plan to execute differs from the approved plan.
    #[error("the plan changed after it was approved: ask for approval of the new one")]
    ApprovalMismatch,
    /// The principal is not one of the approvers.
    #[error("`{by}` may not decide this: ask {}", if .of.is_empty() { "a named principal" } else { .of.as_str() })]
    NotApprover {
        /// The principal.
        by: String,
        /// The permitted approvers, quoted and separated by commas; empty if any named principal may decide.
        of: String,
    },
    /// The requester of a run may not approve it.
    #[error("`{by}` requested the run and may not decide this: another approver must")]
    SelfApproval {
        /// The requester.
        by: String,
    },
    /// The principal has already voted differently.
    #[error("`{by}` has voted {previous} already: the first vote counts")]
    VoteConflict {
        /// The principal.
        by: String,
        /// The earlier vote.
        previous: &'static str,
    },
    /// Only an operator may set this field or use this name.
    #[error(
        "only an operator sets {what}: use a token with the scope `admin`, or declare the agent in a manifest"
    )]
    OperatorOnly {
        /// The field or the name.
        what: String,
    },
    /// The execution policy is invalid or cannot be enforced.
    #[error(transparent)]
    Policy(#[from] PolicyError),
    /// The current state does not permit the transition.
    #[error(transparent)]
    InvalidTransition(#[from] InvalidTransition),
}

impl RequestError {
    /// Creates an error for the field at `path`, with the problem and the remedy.
    pub fn invalid(path: &str, problem: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::Invalid { path: path.to_owned(), problem: problem.into(), fix: fix.into() }
    }

    /// Creates an error for a missing object.
    pub fn not_found(what: &'static str, id: impl std::fmt::Display) -> Self {
        Self::NotFound { what, id: quoted(&id.to_string()) }
    }

    /// Creates an error for an object that exists already.
    pub fn already_exists(what: &'static str, id: impl std::fmt::Display) -> Self {
        Self::AlreadyExists { what, id: quoted(&id.to_string()) }
    }

    /// Creates an error for a principal who is not in `of`.
    pub(crate) fn not_approver(by: &str, of: &[String]) -> Self {
        let names: Vec<String> = of.iter().map(|name| format!("`{}`", quoted(name))).collect();
        Self::NotApprover { by: quoted(by), of: names.join(", ") }
    }

    /// Creates an error for a requester who votes on their own run.
    pub(crate) fn self_approval(by: &str) -> Self {
        Self::SelfApproval { by: quoted(by) }
    }

    /// Returns the stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Invalid { .. } => "invalid",
            Self::TooLarge { .. } => "payload_too_large",
            Self::NotFound { .. } => "not_found",
            Self::AlreadyExists { .. } => "exists",
            Self::RevisionConflict { .. } => "stale",
            Self::IdempotencyMismatch { .. } => "idempotency_mismatch",
            Self::Busy { .. } => "busy",
            Self::LimitExceeded { .. } => "full",
            Self::Fenced { .. } => "fenced",
            Self::Expired { .. } => "expired",
            Self::ApprovalMismatch => "plan_changed",
            Self::NotApprover { .. } => "not_an_approver",
            Self::SelfApproval { .. } => "own_approval",
            Self::VoteConflict { .. } => "vote_conflict",
            Self::OperatorOnly { .. } => "operator_only",
            Self::Policy(error) => error.code(),
            Self::InvalidTransition(InvalidTransition { terminal: true, .. }) => "already_terminal",
            Self::InvalidTransition(_) => "illegal_transition",
        }
    }

    /// Returns the kind in the shared taxonomy.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Invalid { .. } | Self::TooLarge { .. } | Self::Policy(_) => ErrorKind::Invalid,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::LimitExceeded { .. } => ErrorKind::Exhausted,
            Self::NotApprover { .. } | Self::SelfApproval { .. } | Self::OperatorOnly { .. } => {
                ErrorKind::Denied
            }
            Self::AlreadyExists { .. }
            | Self::RevisionConflict { .. }
            | Self::IdempotencyMismatch { .. }
            | Self::Busy { .. }
            | Self::Fenced { .. }
            | Self::Expired { .. }
            | Self::ApprovalMismatch
            | Self::VoteConflict { .. }
            | Self::InvalidTransition(_) => ErrorKind::Conflict,
        }
    }

    /// Returns true if a repetition with the same idempotency key gets the same error. Errors that may disappear are
    /// not stored.
    pub fn is_cacheable(&self) -> bool {
        matches!(self, Self::Policy(_))
    }

    /// Returns the error as data.
    pub fn info(&self) -> ErrorInfo {
        ErrorInfo::new(self.kind(), self.code(), self.to_string())
    }
}
