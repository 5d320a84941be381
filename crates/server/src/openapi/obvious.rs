//! Bodies of which one look tells that the document allows them.
//!
//! Most bodies are an object of a few words. Where a field may be any text, that it is a text is all there is to know, and no
//! validator is needed. Whatever is not obvious is left to it, so this can only be slow to agree, never wrong.

use std::fmt;

use serde::de::{Deserializer, Error, MapAccess, Visitor};
use serde_json::Value;

/// Fields that are looked at: one bit for each.
const FIELDS_MAX: usize = 64;
/// References and unions within each other that are followed.
const DEPTH_MAX: usize = 8;
/// Words of a schema that forbid nothing.
const ANNOTATIONS: [&str; 4] = ["title", "description", "default", "examples"];

/// The kinds of values that a field takes without a second look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Kinds {
    text: bool,
    truth: bool,
    nothing: bool,
}

/// The obvious side of a body's schema.
#[derive(Debug)]
pub(super) struct Obvious {
    fields: Vec<(String, Kinds)>,
    /// The fields that must be there.
    required: u64,
}

impl Obvious {
    /// Reads a schema; nothing if no body of it is obvious. References lead into `root`.
    pub(super) fn of(schema: &Value, root: &Value) -> Option<Self> {
        let schema = resolve(schema, root)?.as_object()?;
        let known = ["type", "properties", "required", "additionalProperties"];
        let mut words = schema.keys().map(String::as_str).filter(|word| !is_annotation(word));
        let is_object = schema.get("type").is_some_and(|kind| kind == "object");
        let properties = schema.get("properties")?.as_object()?;
        let is_plain = words.all(|word| known.contains(&word));
        if !is_object || !is_plain || properties.len() > FIELDS_MAX {
            return None;
        }
        let fields: Vec<_> = properties
            .iter()
            .map(|(name, schema)| (name.clone(), kinds(schema, root, DEPTH_MAX)))
            .collect();
        let mut required = 0;
        for name in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            required |= 1_u64 << fields.iter().position(|(field, _)| name == field)?;
        }
        Some(Self { fields, required })
    }

    /// True if the document allows this body for sure.
    pub(super) fn allows(&self, body: &[u8]) -> bool {
        let mut reader = serde_json::Deserializer::from_slice(body);
        reader.deserialize_map(self).is_ok_and(|()| reader.end().is_ok())
    }
}

fn is_annotation(word: &str) -> bool {
    ANNOTATIONS.contains(&word)
}

/// Follows a schema that is nothing but a reference.
fn resolve<'a>(schema: &'a Value, root: &'a Value) -> Option<&'a Value> {
    let mut schema = schema;
    for _ in 0..DEPTH_MAX {
        let Some(reference) = schema.get("$ref") else { return Some(schema) };
        let words = schema.as_object()?.keys();
        if !words.into_iter().all(|word| word == "$ref" || is_annotation(word)) {
            return None;
        }
        schema = root.pointer(reference.as_str()?.strip_prefix('#')?)?;
    }
    None
}

/// The kinds of which a schema takes every value.
fn kinds(schema: &Value, root: &Value, depth: usize) -> Kinds {
    let none = Kinds::default();
    let Some(schema) = resolve(schema, root).and_then(Value::as_object) else { return none };
    let mut words = schema.iter().filter(|(word, _)| !is_annotation(word));
    match (words.next(), words.next()) {
        (Some((word, Value::Array(forms))), None) if word == "anyOf" && depth > 0 => {
            forms.iter().fold(none, |sum, form| sum.or(kinds(form, root, depth - 1)))
        }
        (Some((word, Value::Array(types))), None) if word == "type" => {
            types.iter().fold(none, |sum, kind| sum.or(Kinds::named(kind)))
        }
        (Some((word, kind)), None) if word == "type" => Kinds::named(kind),
        _ => none,
    }
}

impl Kinds {
    fn named(kind: &Value) -> Self {
        let kind = kind.as_str().unwrap_or_default();
        Self { text: kind == "string", truth: kind == "boolean", nothing: kind == "null" }
    }

    fn or(self, other: Self) -> Self {
        Self {
            text: self.text || other.text,
            truth: self.truth || other.truth,
            nothing: self.nothing || other.nothing,
        }
    }
}

/// Anything but an object of such fields is an error.
impl<'de> Visitor<'de> for &Obvious {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what is obvious")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut seen = 0_u64;
        while let Some(place) = map.next_key_seed(Name(self))? {
            let (_, kinds) = self.fields.get(place).ok_or_else(|| A::Error::custom("unknown"))?;
            map.next_value_seed(Kind(*kinds))?;
            seen |= 1 << place;
        }
        let missing = self.required & !seen;
        if missing == 0 { Ok(()) } else { Err(A::Error::custom("missing")) }
    }
}

/// The name of a field, as its place among the fields.
struct Name<'a>(&'a Obvious);

impl<'de> serde::de::DeserializeSeed<'de> for Name<'_> {
    type Value = usize;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<usize, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name<'_> {
    type Value = usize;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<usize, E> {
        let place = self.0.fields.iter().position(|(field, _)| field == name);
        place.ok_or_else(|| E::custom("unknown"))
    }
}

/// A value of one of these kinds.
struct Kind(Kinds);

impl Kind {
    fn is<E: Error>(taken: bool) -> Result<(), E> {
        if taken { Ok(()) } else { Err(E::custom("not obvious")) }
    }
}

impl<'de> serde::de::DeserializeSeed<'de> for Kind {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

/// Numbers, lists and objects are never obvious, so there is no method for them.
impl Visitor<'_> for Kind {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what is obvious")
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Self::is(self.0.text)
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Self::is(self.0.truth)
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Self::is(self.0.nothing)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn root() -> Value {
        json!({"components": {"schemas": {
            "New": {
                "type": "object",
                "description": "x",
                "properties": {
                    "message": {"$ref": "#/components/schemas/Said", "description": "x"},
                    "agent": {"type": ["string", "null"]},
                    "name": {"type": "string", "maxLength": 3},
                    "deliver": {"type": "boolean", "default": false},
                    "count": {"type": "integer"},
                    "state": {"enum": ["a"]},
                    "either": {"oneOf": [{"type": "string"}, {"type": "string"}]},
                },
                "required": ["message"],
                "additionalProperties": false,
            },
            "Said": {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]},
        }}})
    }

    #[test]
    fn what_is_obvious_is_allowed_and_the_rest_is_looked_at() {
        let root = root();
        let obvious = Obvious::of(&json!({"$ref": "#/components/schemas/New"}), &root).unwrap();
        for body in [
            r#"{"message":"x"}"#,
            r#" {"agent":null,"message":"\u00e9\n"} "#,
            r#"{"message":"x","agent":"y","deliver":true}"#,
        ] {
            assert!(obvious.allows(body.as_bytes()), "{body}");
        }
        for body in [
            "",
            "[]",
            "{}",
            r#"["x"]"#,
            r#"{"message":"x"}}"#,
            r#"{"message":null}"#,
            r#"{"message":["x"]}"#,
            r#"{"message":"x","other":"y"}"#,
            r#"{"message":"x","name":"ab"}"#,
            r#"{"message":"x","deliver":null}"#,
            r#"{"message":"x","deliver":"true"}"#,
            r#"{"message":"x","count":1}"#,
            r#"{"message":"x","state":"a"}"#,
            r#"{"message":"x","either":"a"}"#,
        ] {
            assert!(!obvious.allows(body.as_bytes()), "{body}");
        }
    }

    #[test]
    fn a_schema_that_says_more_is_never_obvious() {
        let root = root();
        for schema in [
            json!(true),
            json!({"type": "array"}),
            json!({"type": "object", "properties": {}, "minProperties": 1}),
            json!({"type": "object", "properties": {}, "required": ["absent"]}),
            json!({"$ref": "#/components/schemas/New", "maxProperties": 1}),
            json!({"$ref": "#/components/schemas/Absent"}),
            json!({"oneOf": [{"$ref": "#/components/schemas/New"}]}),
        ] {
            assert!(Obvious::of(&schema, &root).is_none(), "{schema}");
        }
    }
}
