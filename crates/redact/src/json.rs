//! Redaction of JSON values: every text, and what stands under telling names.

use serde_json::{Map, Value};

use crate::label::{LABELS, Label, Strength, is_hidden_string};
use crate::{MARK, Redactor};

/// Redacts a value in place; true if something changed.
pub(crate) fn redact(redactor: &Redactor, value: &mut Value) -> bool {
    match value {
        Value::String(text) => text_in(redactor, text),
        Value::Number(number) => {
            let is_secret = redactor.finds(number.to_string().as_bytes());
            if is_secret {
                *value = MARK.into();
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

fn text_in(redactor: &Redactor, text: &mut String) -> bool {
    match redactor.redact(text) {
        std::borrow::Cow::Borrowed(_) => false,
        std::borrow::Cow::Owned(clean) => {
            *text = clean;
            true
        }
    }
}

fn members_in(redactor: &Redactor, members: &mut Map<String, Value>) -> bool {
    let mut changed = false;
    for (name, value) in members.iter_mut() {
        let strengths = LABELS.iter().filter(|label| label.ends(name)).map(strength);
        for strength in strengths {
            changed |= hide(redactor, strength, value);
        }
        changed |= redact(redactor, value);
    }
    if members.keys().any(|name| redactor.finds(name.as_bytes())) {
        changed = true;
        let all = std::mem::take(members);
        *members = all
            .into_iter()
            .map(|(name, value)| (redactor.redact(&name).into_owned(), value))
            .collect();
    }
    changed
}

fn strength(label: &Label) -> Strength {
    label.strength
}

/// Hides what stands under a telling name, also in a list, as headers have it.
fn hide(redactor: &Redactor, strength: Strength, value: &mut Value) -> bool {
    let is_hidden = match value {
        Value::String(text) => match strength {
            Strength::Authorization | Strength::Cookie => return header(redactor, strength, text),
            _ => is_hidden_string(strength, text.as_bytes()),
        },
        Value::Number(_) => strength == Strength::Pass,
        Value::Array(items) => {
            return items.iter_mut().fold(false, |all, item| hide(redactor, strength, item) | all);
        }
        _ => false,
    };
    if is_hidden {
        *value = MARK.into();
    }
    is_hidden
}

/// A header's value, as it would be in a header.
fn header(redactor: &Redactor, strength: Strength, text: &mut String) -> bool {
    let name = if strength == Strength::Cookie { "cookie: " } else { "authorization: " };
    let line = format!("{name}{text}");
    let clean = redactor.redact(&line);
    let changed = clean != line;
    if changed {
        *text = clean.strip_prefix(name).unwrap_or(MARK).to_owned();
    }
    changed
}
