//! What went wrong, as `application/problem+json`.

use provost_core::{ErrorInfo, ErrorKind};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A refusal or a failure. Programs branch on `code`; people read `detail`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{detail}")]
pub struct Problem {
    /// A URI that stands for the code.
    #[serde(rename = "type")]
    pub type_uri: String,
    /// What sort of problem, in a few words.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What happened and, where known, what to do.
    pub detail: String,
    /// The stable code.
    pub code: String,
    /// The sort of failure: decides whether to try again.
    pub kind: ErrorKind,
    /// The id of the request, for whoever looks into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request_id: Option<String>,
    /// Which parts of the request are wrong.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub fields: Vec<FieldProblem>,
    /// Milliseconds after which it may work.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// What is wrong with one part of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldProblem {
    /// Which part, as a path: `policy.retry.max_attempts`.
    pub field: String,
    /// What is wrong.
    pub problem: String,
}

impl Problem {
    /// The media type.
    pub const MEDIA_TYPE: &'static str = "application/problem+json";

    /// A problem of a kind; its status follows from that.
    pub fn new(kind: ErrorKind, code: impl Into<String>, detail: impl Into<String>) -> Self {
        let code = code.into();
        Self {
            type_uri: format!("urn:provost:problem:{code}"),
            title: title(kind).to_owned(),
            status: kind.http_status(),
            detail: detail.into(),
            code,
            kind,
            request_id: None,
            fields: Vec::new(),
            retry_after_ms: None,
        }
    }

    /// The same under another status: HTTP has finer words than the taxonomy for what is wrong with a request itself.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// The same, with a field that is wrong.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>, problem: impl Into<String>) -> Self {
        self.fields.push(FieldProblem { field: field.into(), problem: problem.into() });
        self
    }

    /// As an error of the shared taxonomy.
    pub fn info(&self) -> ErrorInfo {
        ErrorInfo::new(self.kind, self.code.clone(), self.detail.clone())
    }
}

impl From<ErrorInfo> for Problem {
    fn from(info: ErrorInfo) -> Self {
        Self::new(info.kind, info.code, info.message)
    }
}

fn title(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid => "The request is wrong",
        ErrorKind::Unauthenticated => "A valid token is needed",
        ErrorKind::Denied => "This is not allowed",
        ErrorKind::NotFound => "There is no such thing",
        ErrorKind::Conflict => "The state does not allow it",
        ErrorKind::Exhausted => "A limit is reached",
        ErrorKind::RateLimited => "Too many requests",
        ErrorKind::Unavailable => "Not available now",
        ErrorKind::Timeout => "It took too long",
        ErrorKind::Malformed => "The other side made no sense",
        ErrorKind::Cancelled => "It was cancelled",
        ErrorKind::Bug => "A defect of Provost",
    }
}
