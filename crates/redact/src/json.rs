//! Redaction of JSON values: all strings, and the values of members with a keyword as their name.

use serde_json::{Map, Value};

use crate::keyword::{Confidence, KEYWORD_RULES, KeywordRule, is_secret_string};
use crate::{PLACEHOLDER, Redactor};

/// Redacts a value in place. Returns true if the value changed.
pub(crate) fn redact(redactor: &Redactor, value: &mut Value) -> bool {
    match value {
        Value::String(text) => text_in(redactor, text),
        Value::Number(number) => {
            let is_secret = redactor.contains_secret(number.to_string().as_bytes());
            if is_secret {
                *value = PLACEHOLDER.into();
            }
            is_secret
        }
        Value::Array(items) => {
            items.iter_mut().fold(false, |changed, item| redact(redactor, item) | changed)
        }
        Value::Object(members) => members_in(redactor, members),
        Value::Null | Value::Bool(_) => false,
    }
}

/// Redacts a string in place. Returns true if it changed.
fn text_in(redactor: &Redactor, text: &mut String) -> bool {
    match redactor.redact(text) {
        std::borrow::Cow::Borrowed(_) => false,
        std::borrow::Cow::Owned(clean) => {
            *text = clean;
            true
        }
    }
}

/// Redacts the values and names of an object's members in place. Returns true if any changed. The name of a member
/// decides whether its value is a secret.
fn members_in(redactor: &Redactor, members: &mut Map<String, Value>) -> bool {
    let mut changed = false;
    for (name, value) in members.iter_mut() {
        let confidences =
            KEYWORD_RULES.iter().filter(|keyword| keyword.matches_name(name)).map(confidence);
        for confidence in confidences {
            changed |= redact_member(redactor, confidence, value);
        }
        changed |= redact(redactor, value);
    }
    if members.keys().any(|name| redactor.contains_secret(name.as_bytes())) {
        changed = true;
        let all = std::mem::take(members);
        *members = all
            .into_iter()
            .map(|(name, value)| (redactor.redact(&name).into_owned(), value))
            .collect();
    }
    changed
}

/// Returns the confidence of a rule.
fn confidence(keyword: &KeywordRule) -> Confidence {
    keyword.confidence
}

/// Replaces the value of a member whose name is a keyword if it is a secret. Elements of an array are redacted one by
/// one. Returns true if it changed.
fn redact_member(redactor: &Redactor, confidence: Confidence, value: &mut Value) -> bool {
    let is_secret = match value {
        Value::String(text) => match confidence {
            Confidence::Authorization | Confidence::Cookie => {
                return header(redactor, confidence, text);
            }
            _ => is_secret_string(confidence, text.as_bytes()),
        },
        Value::Number(_) => confidence == Confidence::Password,
        Value::Array(items) => {
            return items
                .iter_mut()
                .fold(false, |all, item| redact_member(redactor, confidence, item) | all);
        }
        _ => false,
    };
    if is_secret {
        *value = PLACEHOLDER.into();
    }
    is_secret
}

/// Redacts the value of an `Authorization` or `Cookie` header in place, as if it followed the name of the header.
/// Returns true if it changed.
fn header(redactor: &Redactor, confidence: Confidence, text: &mut String) -> bool {
    let name = if confidence == Confidence::Cookie { "cookie: " } else { "authorization: " };
    let line = format!("{name}{text}");
    let clean = redactor.redact(&line);
    let changed = clean != line;
    if changed {
        *text = clean.strip_prefix(name).unwrap_or(PLACEHOLDER).to_owned();
    }
    changed
}
