//! Why a model call failed.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use provost_core::{ErrorInfo, ErrorKind};

/// The classes of failure that callers act on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ModelErrorClass {
    /// The key is missing, wrong or may not use this model.
    Auth,
    /// Too many requests or tokens for now.
    RateLimited,
    /// The account has no money or quota left; waiting does not help.
    QuotaExceeded,
    /// The provider is overloaded or broken.
    Overloaded,
    /// The conversation is longer than the model's context.
    ContextLength,
    /// The provider's filter refused the request.
    ContentFilter,
    /// The provider does not have this model.
    UnknownModel,
    /// The provider refused the request as wrong.
    InvalidRequest,
    /// The connection failed or broke.
    Transport,
    /// No byte came for too long, or the deadline passed.
    Timeout,
    /// The answer is not the provider's own protocol.
    Malformed,
    /// The stream ended before the answer was complete.
    Incomplete,
}

impl ModelErrorClass {
    /// The shared kind: decides retry, HTTP status and exit code.
    pub const fn kind(self) -> ErrorKind {
        match self {
            Self::Auth => ErrorKind::Unauthenticated,
            Self::RateLimited => ErrorKind::RateLimited,
            Self::QuotaExceeded => ErrorKind::Exhausted,
            Self::Overloaded | Self::Transport | Self::Incomplete => ErrorKind::Unavailable,
            Self::ContextLength | Self::InvalidRequest => ErrorKind::Invalid,
            Self::ContentFilter => ErrorKind::Denied,
            Self::UnknownModel => ErrorKind::NotFound,
            Self::Timeout => ErrorKind::Timeout,
            Self::Malformed => ErrorKind::Malformed,
        }
    }

    /// The stable name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Auth => "auth",
            Self::RateLimited => "rate_limited",
            Self::QuotaExceeded => "quota_exceeded",
            Self::Overloaded => "overloaded",
            Self::ContextLength => "context_length",
            Self::ContentFilter => "content_filter",
            Self::UnknownModel => "unknown_model",
            Self::InvalidRequest => "invalid_request",
            Self::Transport => "transport",
            Self::Timeout => "timeout",
            Self::Malformed => "malformed",
            Self::Incomplete => "incomplete",
        }
    }
}

/// A failed model call. Never holds a key or a prompt.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}{}", Origin(self))]
pub struct ModelError {
    /// What sort of failure.
    pub class: ModelErrorClass,
    /// A sentence: what happened and, where known, what to do.
    pub message: String,
    /// The HTTP status, if there was one.
    pub status: Option<u16>,
    /// How long the provider asks to wait.
    pub retry_after: Option<Duration>,
    /// Who said no, or did not answer, if somebody was asked.
    pub provider: Option<String>,
    /// The provider's id of the failed request, for its support.
    pub request_id: Option<String>,
    /// What lies beneath.
    #[source]
    pub source: Option<Arc<dyn std::error::Error + Send + Sync>>,
}

impl ModelError {
    /// An error of a class with a sentence.
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

    /// The error of a stream that ended before its answer was complete.
    pub fn incomplete() -> Self {
        let problem = "the provider's stream ended before the answer was complete";
        Self::new(ModelErrorClass::Incomplete, problem)
    }

    /// Adds what lies beneath.
    #[must_use]
    pub fn caused_by(mut self, source: impl std::error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// The shared kind.
    pub fn kind(&self) -> ErrorKind {
        self.class.kind()
    }

    /// The error as data.
    pub fn info(&self) -> ErrorInfo {
        ErrorInfo::new(self.kind(), self.class.as_str(), self.to_string())
    }
}

/// Who was asked, and what the provider calls the request: what its support wants to know.
struct Origin<'a>(&'a ModelError);

impl fmt::Display for Origin<'_> {
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
    /// Equal if a person would call them the same; the cause beneath does not count.
    fn eq(&self, other: &Self) -> bool {
        self.class == other.class
            && self.message == other.message
            && self.status == other.status
            && self.retry_after == other.retry_after
    }
}
