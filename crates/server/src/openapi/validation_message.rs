//! What is wrong with a body, in words that name what would be right.

use provost_core::text::first_chars;
use std::collections::BTreeSet;

use jsonschema::error::{TypeKind, ValidationErrorKind};
use jsonschema::{JsonType, ValidationError};

/// Characters of a sentence: it repeats what was sent, which may be large.
const SENTENCE_CHARS_MAX: usize = 200;
/// Unions within unions that are looked into.
const DEPTH_MAX: usize = 8;

/// Where something is wrong, and what.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) field: String,
    pub(super) sentence: String,
}

/// Why one of several forms does not fit.
enum Misfit<'a> {
    /// It is of another type.
    Type(String),
    /// Its tag says that it is another one.
    Tag(String, String),
    /// It lacks what this form has.
    Missing(String),
    /// It is this form, and something in it is wrong.
    Inside(&'a ValidationError<'static>),
}

/// What an error says.
pub(super) fn fault(error: &ValidationError<'_>) -> Fault {
    describe(error, DEPTH_MAX)
}

fn describe(error: &ValidationError<'_>, depth: usize) -> Fault {
    let at = error.instance_path().as_str();
    match error.kind() {
        ValidationErrorKind::AnyOf { context } | ValidationErrorKind::OneOfNotValid { context }
            if depth > 0 =>
        {
            let misfits: Vec<_> = context.iter().filter_map(|errors| misfit(errors, at)).collect();
            none_fits(&misfits, at, depth).unwrap_or_else(|| plain(error))
        }
        _ => plain(error),
    }
}

fn plain(error: &ValidationError<'_>) -> Fault {
    Fault { field: field(error.instance_path().as_str()), sentence: cut(&error.to_string()) }
}

/// Why the errors of one form were found at a place: what tells forms apart comes before what is wrong inside.
fn misfit<'a>(errors: &'a [ValidationError<'static>], at: &str) -> Option<Misfit<'a>> {
    let here = |error: &&ValidationError<'_>| error.instance_path().as_str() == at;
    let below = |error: &ValidationError<'_>| {
        let rest = error.instance_path().as_str().strip_prefix(at)?.strip_prefix('/')?;
        (!rest.contains('/')).then(|| rest.to_owned())
    };
    let typed = errors.iter().filter(here).find_map(|error| match error.kind() {
        ValidationErrorKind::Type { kind } => Some(Misfit::Type(types(kind))),
        _ => None,
    });
    let tagged = || {
        errors.iter().find_map(|error| match error.kind() {
            ValidationErrorKind::Constant { expected_value } => {
                Some(Misfit::Tag(below(error)?, expected_value.as_str()?.to_owned()))
            }
            _ => None,
        })
    };
    let missing = || {
        errors.iter().filter(here).find_map(|error| match error.kind() {
            ValidationErrorKind::Required { property } => {
                Some(Misfit::Missing(property.as_str()?.to_owned()))
            }
            _ => None,
        })
    };
    typed.or_else(tagged).or_else(missing).or_else(|| errors.first().map(Misfit::Inside))
}

/// What to say if none of several forms fits; nothing if there is nothing to tell them apart by.
fn none_fits(misfits: &[Misfit<'_>], at: &str, depth: usize) -> Option<Fault> {
    let mut inside = misfits.iter().filter_map(|misfit| match misfit {
        Misfit::Inside(error) => Some(*error),
        _ => None,
    });
    if let Some(error) = inside.next() {
        // If several could be meant, the first one is as good as any.
        return Some(describe(error, depth - 1));
    }
    let tags: Vec<&str> = misfits.iter().filter_map(|misfit| tag(misfit)).collect();
    if let Some(Misfit::Tag(name, _)) = misfits.iter().find(|misfit| tag(misfit).is_some()) {
        let sentence = format!("it must be {}", either(&tags));
        return Some(Fault { field: field(&format!("{at}/{name}")), sentence: cut(&sentence) });
    }
    let mut missing: Vec<String> = misfits
        .iter()
        .filter_map(|misfit| match misfit {
            Misfit::Missing(name) => Some(format!("`{name}`")),
            _ => None,
        })
        .collect();
    missing.dedup();
    if !missing.is_empty() {
        let missing: Vec<&str> = missing.iter().map(String::as_str).collect();
        let sentence = format!("it needs {}", either(&missing));
        return Some(Fault { field: field(at), sentence: cut(&sentence) });
    }
    let types: BTreeSet<&str> = misfits
        .iter()
        .filter_map(|misfit| match misfit {
            Misfit::Type(name) if name != "null" => Some(name.as_str()),
            _ => None,
        })
        .collect();
    let types: Vec<&str> = types.into_iter().collect();
    let sentence = format!("it must be {}", either(&types));
    (!types.is_empty()).then(|| Fault { field: field(at), sentence: cut(&sentence) })
}

fn tag<'a>(misfit: &'a Misfit<'_>) -> Option<&'a str> {
    match misfit {
        Misfit::Tag(_, value) => Some(value),
        _ => None,
    }
}

/// Types in words.
fn types(kind: &TypeKind) -> String {
    let word = |kind: JsonType| match kind {
        JsonType::Null => "null",
        JsonType::Boolean => "true or false",
        JsonType::Integer => "a whole number",
        JsonType::Number => "a number",
        JsonType::String => "text",
        JsonType::Array => "a list",
        JsonType::Object => "an object",
    };
    match kind {
        TypeKind::Single(kind) => word(*kind).to_owned(),
        TypeKind::Multiple(kinds) => {
            either(&kinds.iter().map(word).filter(|word| *word != "null").collect::<Vec<_>>())
        }
    }
}

/// `a`, `a or b`, `a, b or c`.
fn either(words: &[&str]) -> String {
    match words {
        [] => "something else".to_owned(),
        [one] => (*one).to_owned(),
        [rest @ .., last] => format!("{} or {last}", rest.join(", ")),
    }
}

fn field(path: &str) -> String {
    let path = path.trim_start_matches('/').replace('/', ".");
    if path.is_empty() { "body".to_owned() } else { path }
}

fn cut(text: &str) -> String {
    first_chars(text, SENTENCE_CHARS_MAX).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn found(schema: &Value, body: &Value) -> (String, String) {
        let validator = jsonschema::validator_for(schema).unwrap();
        let Fault { field, sentence } = fault(&validator.validate(body).unwrap_err());
        (field, sentence)
    }

    #[test]
    fn the_forms_that_would_fit_are_named() {
        let said = json!({"anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"anyOf": [
                {"type": "object", "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
                 "required": ["type", "text"]},
                {"type": "object", "properties": {"type": {"const": "image"}}, "required": ["type"]},
            ]}},
            {"type": "null"},
        ]});
        let schema = json!({"type": "object", "properties": {"message": said}});
        let check = |message: Value, field: &str, sentence: &str| {
            let (at, said) = found(&schema, &json!({ "message": message }));
            assert_eq!((at.as_str(), said.as_str()), (field, sentence), "{message}");
        };
        check(json!(7), "message", "it must be a list or text");
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
        let check = |body: Value, field: &str, sentence: &str| {
            let (at, said) = found(&schema, &body);
            assert_eq!((at.as_str(), said.as_str()), (field, sentence), "{body}");
        };
        check(json!({"cron": 5}), "cron", "5 is not of type \"string\"");
        check(json!({"at": 5}), "body", "it needs `cron` or `every_ms`");
        check(json!("soon"), "body", "it must be an object");
    }

    #[test]
    fn what_may_be_left_out_is_not_offered_as_null() {
        let schema = json!({"anyOf": [{"type": "string", "maxLength": 3}, {"type": "null"}]});
        assert_eq!(found(&schema, &json!(5)).1, "it must be text");
        assert!(found(&schema, &json!("long")).1.contains("longer than 3"));
    }

    #[test]
    fn a_sentence_is_short_whatever_was_sent() {
        let schema = json!({"type": "integer"});
        let (_, sentence) = found(&schema, &json!("x".repeat(10_000)));
        assert_eq!(sentence.chars().count(), SENTENCE_CHARS_MAX);
    }
}
