//! Error responses in the format of RFC 9457 (`application/problem+json`).

use std::borrow::Cow;

use provost_core::{ErrorInfo, ErrorKind};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};

/// An error response. Programs branch on `code`; `detail` is for users. The members `type` and `title` follow from the code
/// and the kind, so they are only serialized: see [`type_uri`](Self::type_uri) and [`title`](Self::title).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, thiserror::Error)]
#[error("{detail}")]
pub struct Problem {
    /// HTTP status.
    pub status: u16,
    /// Description of the error and, if known, of its solution.
    pub detail: String,
    /// Stable code of the error.
    pub code: String,
    /// Kind of the error. It determines whether a retry can succeed.
    pub kind: ErrorKind,
    /// Id of the request, as in the header `X-Request-Id`.
    #[serde(default)]
    pub request_id: Option<String>,
    /// Invalid parts of the request.
    #[serde(default)]
    pub fields: Vec<FieldProblem>,
    /// Milliseconds after which a retry can succeed.
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
}

/// An error response in the format of RFC 9457. Programs branch on `code`; `detail` is for users.
#[derive(Serialize, JsonSchema)]
struct ProblemDocument<'a> {
    /// URI of the error code.
    #[serde(rename = "type")]
    type_uri: String,
    /// Short name of the kind.
    title: &'a str,
    /// HTTP status.
    status: u16,
    /// Description of the error and, if known, of its solution.
    detail: &'a str,
    /// Stable code of the error.
    code: &'a str,
    /// Kind of the error. It determines whether a retry can succeed.
    kind: ErrorKind,
    /// Id of the request, as in the header `X-Request-Id`.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    /// Invalid parts of the request.
    #[serde(skip_serializing_if = "<[FieldProblem]>::is_empty")]
    #[schemars(default)]
    fields: &'a [FieldProblem],
    /// Milliseconds after which a retry can succeed.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let document = ProblemDocument {
            type_uri: self.type_uri(),
            title: self.title(),
            status: self.status,
            detail: &self.detail,
            code: &self.code,
            kind: self.kind,
            request_id: self.request_id.as_deref(),
            fields: &self.fields,
            retry_after_ms: self.retry_after_ms,
        };
        document.serialize(serializer)
    }
}

impl JsonSchema for Problem {
    fn schema_name() -> Cow<'static, str> {
        "Problem".into()
    }

    fn json_schema(schemas: &mut SchemaGenerator) -> Schema {
        ProblemDocument::json_schema(schemas)
    }
}

/// An invalid part of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FieldProblem {
    /// Path of the part, such as `policy.retry.max_attempts`.
    pub field: String,
    /// Description of the error.
    pub problem: String,
}

impl Problem {
    /// Media type of the response.
    pub const MEDIA_TYPE: &'static str = "application/problem+json";

    /// Creates a problem. Its HTTP status follows from the kind.
    pub fn new(kind: ErrorKind, code: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            status: kind.http_status(),
            detail: detail.into(),
            code: code.into(),
            kind,
            request_id: None,
            fields: Vec::new(),
            retry_after_ms: None,
        }
    }

    /// Replaces the HTTP status, because HTTP distinguishes invalid requests more finely than the error kinds do.
    #[must_use]
    pub fn status(mut self, status: u16) -> Self {
        self.status = status;
        self
    }

    /// Adds an invalid field. Earlier ones remain.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>, problem: impl Into<String>) -> Self {
        self.fields.push(FieldProblem { field: field.into(), problem: problem.into() });
        self
    }

    /// Returns the URI of the error code.
    pub fn type_uri(&self) -> String {
        format!("urn:provost:problem:{}", self.code)
    }

    /// Returns the short name of the kind.
    pub fn title(&self) -> &'static str {
        title(self.kind)
    }

    /// Converts the problem to the error type that all crates share.
    pub fn info(&self) -> ErrorInfo {
        ErrorInfo::new(self.kind, self.code.clone(), self.detail.clone())
    }
}

impl From<ErrorInfo> for Problem {
    fn from(info: ErrorInfo) -> Self {
        Self::new(info.kind, info.code, info.message)
    }
}

/// Returns the published short name of a kind.
fn title(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Invalid => "The request is invalid",
        ErrorKind::Unauthenticated => "A valid token is required",
        ErrorKind::Denied => "This is not allowed",
        ErrorKind::NotFound => "Not found",
        ErrorKind::Conflict => "Conflict with the current state",
        ErrorKind::Exhausted => "A limit is exhausted",
        ErrorKind::RateLimited => "Too many requests",
        ErrorKind::Unavailable => "Service unavailable",
        ErrorKind::Timeout => "Timeout",
        ErrorKind::Malformed => "Malformed response of another system",
        ErrorKind::Cancelled => "Cancelled",
        ErrorKind::Bug => "Internal error",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_read_as_it_was_written() {
        let problem = Problem::new(ErrorKind::Invalid, "invalid", "no").status(415).field("a", "b");
        let text = serde_json::to_value(&problem).unwrap();
        assert_eq!(text["type"], "urn:provost:problem:invalid");
        assert_eq!(text["title"], "The request is invalid");
        assert_eq!(serde_json::from_value::<Problem>(text).unwrap(), problem);
    }

    #[test]
    fn the_schema_says_what_is_always_there() {
        let schema = schemars::schema_for!(Problem).to_value();
        let required = schema["required"].as_array().unwrap();
        for name in ["type", "title", "status", "detail", "code", "kind"] {
            assert!(required.contains(&name.into()), "{name}: {schema}");
        }
        assert!(!required.contains(&"fields".into()), "{schema}");
    }
}
