//! Errors of model calls.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use provost_core::{ErrorInfo, ErrorKind};

/// Cause of a failed model call, as far as callers treat causes differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelErrorClass {
    /// The key is missing, invalid or not allowed to use this model.
    Auth,
    /// The rate limit of requests or tokens is exceeded.
    RateLimited,
    /// The account has no money or quota left. Waiting does not help.
    QuotaExceeded,
    /// The provider is overloaded or has an internal error.
    Overloaded,
    /// The conversation is longer than the context window of the model.
    ContextLength,
    /// The provider's content filter rejected the request.
    ContentFilter,
    /// The provider does not have this model.
    ModelNotFound,
    /// The provider rejected the request as invalid.
    InvalidRequest,
    /// The connection could not be opened or was lost.
    Transport,
    /// The provider sent nothing for too long, or the deadline passed.
    Timeout,
    /// The response does not follow the provider's protocol.
    Malformed,
    /// The stream ended before the response was complete.
    StreamTruncated,
}

impl ModelErrorClass {
    /// Returns the kind of the error, which decides about retries, HTTP status and exit code.
    pub const fn kind(self) -> ErrorKind {
        match self {
            Self::Auth => ErrorKind::Unauthenticated,
            Self::RateLimited => ErrorKind::RateLimited,
            Self::QuotaExceeded => ErrorKind::Exhausted,
            Self::Overloaded | Self::Transport | Self::StreamTruncated => ErrorKind::Unavailable,
            Self::ContextLength | Self::InvalidRequest => ErrorKind::Invalid,
            Self::ContentFilter => ErrorKind::Denied,
            Self::ModelNotFound => ErrorKind::NotFound,
            Self::Timeout => ErrorKind::Timeout,
            Self::Malformed => ErrorKind::Malformed,
        }
    }

    /// Returns the stable name of the class.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::RateLimited => "rate_limited",
            Self::QuotaExceeded => "quota_exceeded",
            Self::Overloaded => "overloaded",
            Self::ContextLength => "context_length",
            Self::ContentFilter => "content_filter",
            Self::ModelNotFound => "unknown_model",
            Self::InvalidRequest => "invalid_request",
            Self::Transport => "transport",
            Self::Timeout => "timeout",
            Self::Malformed => "malformed",
            Self::StreamTruncated => "incomplete",
        }
    }
}

/// A failed model call. It never contains a key or a prompt.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}{}", ProviderSuffix(self))]
pub struct ModelError {
    /// Class of the failure.
    pub class: ModelErrorClass,
    /// Description of the failure and, if known, of its remedy.
    pub message: String,
    /// The HTTP status. `None` if there was no response.
    pub status: Option<u16>,
    /// Delay before a retry that the provider requests.
    pub retry_after: Option<Duration>,
    /// Name of the provider. `None` if no request was sent.
    pub provider: Option<String>,
    /// The provider's id of the failed request. Its support asks for it.
    pub request_id: Option<String>,
    /// The error that caused this one.
    #[source]
    pub source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl ModelError {
    /// Creates an error with a class and a message.
    pub fn new(class: ModelErrorClass, message: impl Into<String>) -> Self {
        Self {
            class,
            message: message.into(),
            status: None,
            retry_after: None,
            provider: None,
            request_id: None,
            source: None,
        }
    }

    /// Creates the error of a stream that ended before the response was complete.
    pub fn stream_truncated() -> Self {
        let problem = "the provider's stream ended before the response was complete";
        Self::new(ModelErrorClass::StreamTruncated, problem)
    }

    /// Sets the error that caused this one.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.class.kind()
    }

    /// Returns the serializable form of the error.
    pub fn info(&self) -> ErrorInfo {
        ErrorInfo::new(self.kind(), self.class.as_str(), self.to_string())
    }
}

/// Displays the provider and its request id after the message of an error.
struct ProviderSuffix<'a>(&'a ModelError);

impl fmt::Display for ProviderSuffix<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.0.provider, &self.0.request_id) {
            (None, None) => Ok(()),
            (Some(provider), None) => write!(f, " [{provider}]"),
            (None, Some(id)) => write!(f, " [request {id}]"),
            (Some(provider), Some(id)) => write!(f, " [{provider}, request {id}]"),
        }
    }
}

impl PartialEq for ModelError {
    /// Compares class, message, status and retry delay. The cause is ignored.
    fn eq(&self, other: &Self) -> bool {
        self.class == other.class
            && self.message == other.message
            && self.status == other.status
            && self.retry_after == other.retry_after
    }
}
