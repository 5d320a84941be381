//! Why a secret cannot be had.

use provost_core::ErrorKind;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_redact::Unlearnable;

/// Why a secret cannot be had. No text of it holds a value.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SecretError {
    /// What names it is no name.
    #[error(
        "`{text}` names no secret: {problem}; write `name`, `name:key`, `namespace/name` or `namespace/name:key`"
    )]
    Reference {
        /// What was written.
        text: String,
        /// What is wrong with it.
        problem: &'static str,
    },
    /// It belongs to another namespace.
    #[error("the secret `{reference}` is not in the namespace `{namespace}`; use one of its own")]
    Namespace {
        /// Who asks.
        namespace: String,
        /// What for.
        reference: String,
    },
    /// It is nowhere.
    #[error("there is no secret `{reference}`; make it with `provost secret set`")]
    NotFound {
        /// What was asked for.
        reference: String,
    },
    /// It is there and has no value.
    #[error("the secret `{reference}` is empty in {place}; set it or remove it there")]
    Empty {
        /// What was asked for.
        reference: String,
        /// Where it is.
        place: String,
    },
    /// A place where it might be cannot be read. What it would say is not known, so nobody else is asked.
    #[error("{place} cannot be read: {problem}")]
    Unreadable {
        /// Which place.
        place: String,
        /// What is wrong.
        problem: String,
        /// What sort of failure.
        kind: ErrorKind,
    },
    /// It was sealed with a key that is not here.
    #[error(
        "the secret `{reference}` was sealed with the key `{key_id}`, which is not in the keyring; bring that key back, or set the secret again"
    )]
    KeyMissing {
        /// What was asked for.
        reference: String,
        /// The key's id.
        key_id: String,
    },
    /// It does not open: the row was changed, or belongs to another place.
    #[error("the secret `{reference}` does not open: its row was changed or moved; set it again")]
    Sealed {
        /// What was asked for.
        reference: String,
    },
    /// The master key cannot be used.
    #[error("the master key cannot be used: {problem}")]
    Key {
        /// What is wrong and what to do.
        problem: String,
    },
    /// It could not be kept out of what is written down.
    #[error("the secret `{reference}` cannot be used: {problem}")]
    Unlearnable {
        /// What was asked for.
        reference: String,
        /// Why.
        problem: Unlearnable,
    },
    /// Somebody else changed it at the same time.
    #[error("the secret `{reference}` was changed by somebody else at the same time; try again")]
    Conflict {
        /// Which one.
        reference: String,
    },
    /// It is there and cannot be sent as it is.
    #[error("the secret `{reference}` cannot be sent: {problem}")]
    Unusable {
        /// Which one.
        reference: String,
        /// What is wrong, without the value.
        problem: &'static str,
    },
    /// A token cannot be fetched.
    #[error("no token from `{host}`: {problem}")]
    Token {
        /// The host of the token's address.
        host: String,
        /// What is wrong.
        problem: String,
        /// What sort of failure.
        kind: ErrorKind,
    },
}

impl SecretError {
    /// What sort of failure.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Reference { .. } | Self::Empty { .. } | Self::Unlearnable { .. } => {
                ErrorKind::Invalid
            }
            Self::Unusable { .. } | Self::Key { .. } => ErrorKind::Invalid,
            Self::Namespace { .. } => ErrorKind::Denied,
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::KeyMissing { .. } => ErrorKind::NotFound,
            Self::Sealed { .. } => ErrorKind::Malformed,
            Self::Conflict { .. } => ErrorKind::Conflict,
            Self::Unreadable { kind, .. } | Self::Token { kind, .. } => *kind,
        }
    }

    /// A place that cannot be read.
    pub fn unreadable(place: impl Into<String>, kind: ErrorKind, problem: impl ToString) -> Self {
        Self::Unreadable { place: place.into(), problem: problem.to_string(), kind }
    }

    /// As a failure of a tool call.
    pub fn fault(&self) -> ToolContractError {
        let fault = ToolContractError::new(ToolErrorCode::SecretResolutionFailed, self.to_string());
        ToolContractError { retryable: self.kind().retryable(), ..fault }
    }
}
