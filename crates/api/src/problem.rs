//! What went wrong, as `application/problem+json`.

use std::borrow::Cow;

use provost_core::{ErrorInfo, ErrorKind};
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize, Serializer};

/// A refusal or a failure. Programs branch on `code`; people read `detail`. What follows from the code and the kind is not
/// kept, only written: see [`type_uri`](Self::type_uri) and [`title`](Self::title).
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, thiserror::Error)]
#[error("{detail}")]
pub struct Problem {
    /// The HTTP status.
    pub status: u16,
    /// What happened and, where known, what to do.
    pub detail: String,
    /// The stable code.
    pub code: String,
    /// The sort of failure: decides whether to try again.
    pub kind: ErrorKind,
    /// The id of the request, for whoever looks into it.
    #[serde(default)]
    pub request_id: Option<String>,
    /// Which parts of the request are wrong.
    #[serde(default)]
    pub fields: Vec<FieldProblem>,
    /// Milliseconds after which it may work.
    #[serde(default)]
    pub retry_after_ms: Option<u64>,
}

/// A refusal or a failure. Programs branch on `code`; people read `detail`.
#[derive(Serialize, JsonSchema)]
struct Document<'a> {
    /// A URI that stands for the code.
    #[serde(rename = "type")]
    type_uri: String,
    /// What sort of problem, in a few words.
    title: &'a str,
    /// The HTTP status.
    status: u16,
    /// What happened and, where known, what to do.
    detail: &'a str,
    /// The stable code.
    code: &'a str,
    /// The sort of failure: decides whether to try again.
    kind: ErrorKind,
    /// The id of the request, for whoever looks into it.
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<&'a str>,
    /// Which parts of the request are wrong.
    #[serde(skip_serializing_if = "<[FieldProblem]>::is_empty")]
    #[schemars(default)]
    fields: &'a [FieldProblem],
    /// Milliseconds after which it may work.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
}

impl Serialize for Problem {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let document = Document {
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
        Document::json_schema(schemas)
    }
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

    /// A URI that stands for the code.
    pub fn type_uri(&self) -> String {
        format!("urn:provost:problem:{}", self.code)
    }

    /// What sort of problem, in a few words.
    pub fn title(&self) -> &'static str {
        title(self.kind)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_read_as_it_was_written() {
        let problem = Problem::new(ErrorKind::Invalid, "invalid", "no").status(415).field("a", "b");
        let text = serde_json::to_value(&problem).unwrap();
        assert_eq!(text["type"], "urn:provost:problem:invalid");
        assert_eq!(text["title"], "The request is wrong");
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
