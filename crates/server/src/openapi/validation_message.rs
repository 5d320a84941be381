//! Messages for invalid request bodies. A message states the expected value.

use provost_core::text::first_chars;
use std::collections::BTreeSet;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};

/// Maximum length of a message, because it can contain a part of the body.
const MESSAGE_CHARS_MAX: usize = 200;
/// Maximum depth of nested unions.
const DEPTH_MAX: usize = 8;

/// An invalid field and its message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ValidationMessage {
    pub(super) field: String,
    pub(super) text: String,
}

/// Reason why a variant of a union does not match.
enum VariantMismatch<'a> {
    /// The value has another type.
    Type(String),
    /// The tag of the value selects another variant.
    Tag(String, String),
    /// The value lacks a required field of this variant.
    Missing(String),
    /// The value is this variant, but a part of it is invalid.
    Inside(&'a ValidationError<'static>),
}

/// Returns the message of a validation error.
pub(super) fn validation_message(error: &ValidationError<'_>) -> ValidationMessage {
    describe(error, DEPTH_MAX)
}

fn describe(error: &ValidationError<'_>, depth: usize) -> ValidationMessage {
    let at = error.instance_path().as_str();
    match error.kind() {
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }
            if depth > 0 =>
        {
            let mismatches: Vec<_> =
                context.iter().filter_map(|errors| mismatch(errors, at)).collect();
            describe_mismatches(&mismatches, at, depth).unwrap_or_else(|| default_message(error))
        }
        _ => default_message(error),
    }
}

fn default_message(error: &ValidationError<'_>) -> ValidationMessage {
    ValidationMessage {
        field: field(error.instance_path().as_str()),
        text: truncate(&error.to_string()),
    }
}

/// Returns why a variant does not match. Reasons that distinguish variants take precedence over errors within a variant.
fn mismatch<'a>(errors: &'a [ValidationError<'static>], at: &str) -> Option<VariantMismatch<'a>> {
    let here = |error: &&ValidationError<'_>| error.instance_path().as_str() == at;
    let below = |error: &ValidationError<'_>| {
        let rest = error.instance_path().as_str().strip_prefix(at)?.strip_prefix('/')?;
        (!rest.contains('/')).then(|| rest.to_owned())
    };
    let typed = errors.iter().filter(here).find_map(|error| match error.kind() {
        ValidationErrorKind::Type { kind } => Some(VariantMismatch::Type(types(kind))),
        _ => None,
    });
    let tagged = || {
        errors.iter().find_map(|error| match error.kind() {
            ValidationErrorKind::Constant { expected_value } => {
                Some(VariantMismatch::Tag(below(error)?, expected_value.as_str()?.to_owned()))
            }
            _ => None,
        })
    };
    let missing = || {
        errors.iter().filter(here).find_map(|error| match error.kind() {
            ValidationErrorKind::Required { property } => {
                Some(VariantMismatch::Missing(property.as_str()?.to_owned()))
            }
            _ => None,
        })
    };
    typed.or_else(tagged).or_else(missing).or_else(|| errors.first().map(VariantMismatch::Inside))
}

/// Returns the message if no variant matches. `None` if the variants cannot be distinguished.
fn describe_mismatches(
    mismatches: &[VariantMismatch<'_>],
    at: &str,
    depth: usize,
) -> Option<ValidationMessage> {
    let mut inside = mismatches.iter().filter_map(|mismatch| match mismatch {
        VariantMismatch::Inside(error) => Some(*error),
        _ => None,
    });
    if let Some(error) = inside.next() {
        // If several variants are possible, the first one is described.
        return Some(describe(error, depth - 1));
    }
    let tags: Vec<&str> = mismatches.iter().filter_map(|mismatch| tag(mismatch)).collect();
    if let Some(VariantMismatch::Tag(name, _)) =
        mismatches.iter().find(|mismatch| tag(mismatch).is_some())
    {
        let message = format!("it must be {}", join_or(&tags));
        return Some(ValidationMessage {
            field: field(&format!("{at}/{name}")),
            text: truncate(&message),
        });
    }
    let mut missing: Vec<String> = mismatches
        .iter()
        .filter_map(|mismatch| match mismatch {
            VariantMismatch::Missing(name) => Some(format!("`{name}`")),
            _ => None,
        })
        .collect();
    missing.dedup();
    if !missing.is_empty() {
        let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
        let message = format!("it needs {}", join_or(&missing));
        return Some(ValidationMessage { field: field(at), text: truncate(&message) });
    }
    let types: BTreeSet<&str> = mismatches
        .iter()
        .filter_map(|mismatch| match mismatch {
            VariantMismatch::Type(name) if name != "null" => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let types: Vec<&str> = types.into_iter().collect();
    let message = format!("it must be {}", join_or(&types));
    (!types.is_empty()).then(|| ValidationMessage { field: field(at), text: truncate(&message) })
}

fn tag<'a>(mismatch: &'a VariantMismatch<'_>) -> Option<&'a str> {
    match mismatch {
        VariantMismatch::Tag(_, value) => Some(value),
        _ => None,
    }
}

/// Returns the names of types.
fn types(kind: &TypeKind) -> String {
    let word = |kind: JsonType| match kind {
        JsonType::Null => "null",
        JsonType::Boolean => "a boolean",
        JsonType::Integer => "an integer",
        JsonType::Number => "a number",
        JsonType::String => "a string",
        JsonType::Array => "an array",
        JsonType::Object => "an object",
    };
    match kind {
        TypeKind::Single(kind) => word(*kind).to_owned(),
        TypeKind::Multiple(kinds) => {
            join_or(&kinds.iter().map(word).filter(|word| *word != "null").collect::<Vec<_>>())
        }
    }
}

/// Joins names: `a`, `a or b`, `a, b or c`.
fn join_or(words: &[&str]) -> String {
    match words {
        [] => "another value".to_owned(),
        [one] => (*one).to_owned(),
        [rest @ .., last] => format!("{} or {last}", rest.join(", ")),
    }
}

fn field(path: &str) -> String {
    let path = path.trim_start_matches('/').replace('/', ".");
    if path.is_empty() { "body".to_owned() } else { path }
}

fn truncate(text: &str) -> String {
    first_chars(text, MESSAGE_CHARS_MAX).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(schema: &Value, body: &Value) -> (String, String) {
        let validator = jsonschema::validator_for(schema).unwrap();
        let ValidationMessage { field, text } =
            validation_message(&validator.validate(body).unwrap_err());
        (field, text)
    }

    #[test]
    fn the_forms_that_would_fit_are_named() {
        let message = json!({"anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"anyOf": [
                {"type": "object", "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
                 "required": ["type", "text"]},
                {"type": "object", "properties": {"type": {"const": "image"}}, "required": ["type"]},
            ]}},
            {"type": "null"},
        ]});
        let schema = json!({"type": "object", "properties": {"message": message}});
        let check = |message: Value, field: &str, expected: &str| {
            let (at, text) = found(&schema, &json!({ "message": message }));
            assert_eq!((at.as_str(), text.as_str()), (field, expected), "{message}");
        };
        check(json!(7), "message", "it must be a string or an array");
        check(json!([7]), "message.0", "it must be an object");
        check(json!([{"type": "sound"}]), "message.0.type", "it must be text or image");
        check(json!([{"type": 0}]), "message.0.type", "it must be text or image");
        check(
            json!([{"type": "text", "text": 7}]),
            "message.0.text",
            "7 is not of type \"string\"",
        );
        check(json!([{}]), "message.0", "it needs `type`");
    }

    #[test]
    fn a_form_that_is_told_by_its_field_is_looked_into() {
        let form = |name: &str, kind: &str| {
            json!({
                "type": "object", "properties": {name: {"type": kind}}, "required": [name],
                "additionalProperties": false,
            })
        };
        let schema = json!({"oneOf": [form("cron", "string"), form("every_ms", "integer")]});
        let check = |body: Value, field: &str, expected: &str| {
            let (at, text) = found(&schema, &body);
            assert_eq!((at.as_str(), text.as_str()), (field, expected), "{body}");
        };
        check(json!({"cron": 5}), "cron", "5 is not of type \"string\"");
        check(json!({"at": 5}), "body", "it needs `cron` or `every_ms`");
        check(json!("soon"), "body", "it must be an object");
    }

    #[test]
    fn what_may_be_left_out_is_not_offered_as_null() {
        let schema = json!({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]});
        assert_eq!(found(&schema, &json!(5)).1, "it must be a string");
        assert!(found(&schema, &json!("long")).1.contains("longer than 3"));
    }

    #[test]
    fn a_sentence_is_short_whatever_was_sent() {
        let schema = json!({"type": "integer"});
        let (_, text) = found(&schema, &json!("x".repeat(10_000)));
        assert_eq!(text.chars().count(), MESSAGE_CHARS_MAX);
    }
}
