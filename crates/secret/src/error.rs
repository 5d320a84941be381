//! Errors of secrets.

use provost_core::ErrorKind;
use provost_core::contract::{ToolContractError, ToolErrorCode};
use provost_redact::RegisterError;

/// A secret is not available. No message contains a value.
#[derive(Debug, Clone, thiserror::Error)]
pub enum SecretError {
    /// The reference is invalid.
    #[error(
        "`{text}` is not a reference to a secret: {problem}; use `name`, `name:key`, `namespace/name` or `namespace/name:key`"
    )]
    Reference {
        /// The reference as written.
        text: String,
        /// Reason for the rejection.
        problem: &'static str,
    },
    /// The secret belongs to another namespace.
    #[error(
        "the secret `{reference}` is not in the namespace `{namespace}`; use a secret of that namespace"
    )]
    Namespace {
        /// Namespace of the caller.
        namespace: String,
        /// The requested reference.
        reference: String,
    },
    /// No resolver has the secret.
    #[error("the secret `{reference}` does not exist; create it with `provost secret set`")]
    NotFound {
        /// The requested reference.
        reference: String,
    },
    /// The secret exists but has no value.
    #[error("the secret `{reference}` is empty in {place}; set it or remove it there")]
    Empty {
        /// The requested reference.
        reference: String,
        /// Location of the empty value.
        place: String,
    },
    /// A source of secrets cannot be read. The search ends, because its content is unknown.
    #[error("{place} cannot be read: {problem}")]
    Unreadable {
        /// The source.
        place: String,
        /// Reason for the failure.
        problem: String,
        /// Category of the failure.
        kind: ErrorKind,
    },
    /// The keyring does not contain the key of the secret.
    #[error(
        "the secret `{reference}` was sealed with the key `{key_id}`, which is not in the keyring; restore the key, or set the secret again"
    )]
    KeyMissing {
        /// The requested reference.
        reference: String,
        /// Id of the missing key.
        key_id: String,
    },
    /// Decryption failed: the row was modified, or moved from another location.
    #[error(
        "the secret `{reference}` cannot be decrypted: its row was modified or moved; set it again"
    )]
    Sealed {
        /// The requested reference.
        reference: String,
    },
    /// The master key is unusable.
    #[error("the master key is unusable: {problem}")]
    Key {
        /// Reason and remedy.
        problem: String,
    },
    /// The value cannot be redacted, so it must not be used.
    #[error("the secret `{reference}` cannot be used: {problem}")]
    Unredactable {
        /// The requested reference.
        reference: String,
        /// Reason for the rejection.
        problem: RegisterError,
    },
    /// The secret changed concurrently.
    #[error("the secret `{reference}` was changed concurrently; try again")]
    Conflict {
        /// The affected reference.
        reference: String,
    },
    /// The value cannot be sent in the required form.
    #[error("the secret `{reference}` cannot be sent: {problem}")]
    Unusable {
        /// The affected reference.
        reference: String,
        /// Reason, without the value.
        problem: &'static str,
    },
    /// A token cannot be fetched.
    #[error("no token from `{host}`: {problem}")]
    Token {
        /// Host of the token endpoint.
        host: String,
        /// Reason for the failure.
        problem: String,
        /// Category of the failure.
        kind: ErrorKind,
    },
}

impl SecretError {
    /// Returns the category of the error.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Reference { .. } | Self::Empty { .. } | Self::Unredactable { .. } => {
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

    /// Creates a [`SecretError::Unreadable`] for a source of secrets.
    pub fn unreadable(place: impl Into<String>, kind: ErrorKind, problem: impl ToString) -> Self {
        Self::Unreadable { place: place.into(), problem: problem.to_string(), kind }
    }

    /// Converts the error into an error of the tool contract with the code [`ToolErrorCode::SecretResolutionFailed`].
    /// The kind decides whether the call may be repeated.
    pub fn to_contract_error(&self) -> ToolContractError {
        let fault = ToolContractError::new(ToolErrorCode::SecretResolutionFailed, self.to_string());
        ToolContractError { retryable: self.kind().retryable(), ..fault }
    }
}
