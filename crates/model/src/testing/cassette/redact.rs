//! Removes secrets from recorded calls.

use std::fmt;
use std::sync::Arc;

use provost_core::Secret;
use serde_json::Value;

use super::RecordedCall;

/// Replacement of a secret.
const MASK: &str = "[redacted]";
/// Prefixes of the keys of well-known services.
const KEY_PREFIXES: [&str; 11] = [
    "sk-",
    "sk_",
    "pk_",
    "ghp_",
    "gho_",
    "github_pat_",
    "xoxb-",
    "xoxp-",
    "AKIA",
    "AIza",
    "glpat-",
];
/// Smallest number of characters after such a prefix.
const KEY_CHARS_MIN: usize = 12;

type RedactionRule = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// Rules that remove secrets before a call is recorded: keys with a known prefix, known secrets, and the matches of
/// additional rules.
#[derive(Clone, Default)]
pub struct CassetteRedaction {
    secrets: Vec<Secret<String>>,
    rules: Vec<RedactionRule>,
}

impl CassetteRedaction {
    /// Adds a secret to remove.
    #[must_use]
    pub fn secret(mut self, secret: impl Into<Secret<String>>) -> Self {
        self.secrets.push(secret.into());
        self
    }

    /// Adds a rule that rewrites every text.
    #[must_use]
    pub fn rule(mut self, rule: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        self.rules.push(Arc::new(rule));
        self
    }

    /// Returns the text with all secrets replaced.
    pub fn redact_text(&self, text: &str) -> String {
        let mut text = mask_keys(text);
        for secret in &self.secrets {
            let secret = secret.expose().as_str();
            if !secret.is_empty() && text.contains(secret) {
                text = text.replace(secret, MASK);
            }
        }
        self.rules.iter().fold(text, |text, rule| rule(&text))
    }

    /// Replaces secrets in all strings of a JSON value. Keys of objects are unchanged.
    pub(super) fn redact_value(&self, value: &mut Value) {
        match value {
            Value::String(text) => *text = self.redact_text(text),
            Value::Array(items) => items.iter_mut().for_each(|item| self.redact_value(item)),
            Value::Object(fields) => fields.values_mut().for_each(|field| self.redact_value(field)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    /// Returns a call with all secrets replaced. A response that redaction makes invalid becomes an error.
    pub(super) fn redact_call(&self, call: RecordedCall) -> RecordedCall {
        let RecordedCall { mut request, answer } = call;
        self.redact_value(&mut request);
        let redacted = serde_json::to_value(&answer).and_then(|mut data| {
            self.redact_value(&mut data);
            serde_json::from_value(data)
        });
        // A value that serializes also deserializes. If it does not, an error is recorded instead of a possible secret.
        let answer = redacted.unwrap_or_else(|error| super::RecordedAnswer::Error {
            class: "malformed".to_owned(),
            message: format!("the response could not be recorded: {error}"),
            status: None,
        });
        RecordedCall { request, answer }
    }
}

impl fmt::Debug for CassetteRedaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CassetteRedaction({} secrets, {} rules)", self.secrets.len(), self.rules.len())
    }
}

/// Replaces words that start with the prefix of a well-known key.
fn mask_keys(text: &str) -> String {
    let is_key_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(is_key_char) {
        let (before, from) = rest.split_at(start);
        let end = from.find(|c| !is_key_char(c)).unwrap_or(from.len());
        let (word, after) = from.split_at(end);
        out.push_str(before);
        let prefix = KEY_PREFIXES.iter().find(|prefix| word.starts_with(**prefix));
        let is_key = prefix.is_some_and(|prefix| word.len() >= prefix.len() + KEY_CHARS_MIN);
        out.push_str(if is_key { MASK } else { word });
        rest = after;
    }
    out.push_str(rest);
    out
}
