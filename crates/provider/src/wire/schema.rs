//! Schemas in the narrow dialects that vendors can hold a model to.
//!
//! A strict schema never allows more than the given one did in shape: every property is required and nothing else may
//! appear. Where a schema cannot be said in the dialect the answer is `None`, and the caller sends it as advice instead.

use serde_json::{Map, Value};

/// Nesting beyond which a schema is not made strict.
const DEPTH_MAX: usize = 64;

/// A vendor's dialect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// OpenAI's: all properties required, bounds on numbers and arrays allowed.
    OpenAi,
    /// Anthropic's: optional properties allowed, bounds not; they move into the description.
    Anthropic,
}

/// The schema in the dialect, or `None` where it cannot be said.
pub(crate) fn strict(schema: &Value, dialect: Dialect) -> Option<Value> {
    let root = schema.as_object()?;
    let is_object = root.get("type").is_some_and(|kind| kind == "object");
    if !is_object || root.contains_key("anyOf") || root.contains_key("oneOf") {
        return None;
    }
    if dialect == Dialect::Anthropic && is_recursive(schema) {
        return None;
    }
    node(schema, dialect, 0)
}

fn node(schema: &Value, dialect: Dialect, depth: usize) -> Option<Value> {
    let fields = schema.as_object()?;
    if depth > DEPTH_MAX {
        return None;
    }
    if let Some(target) = fields.get("$ref") {
        // Vendors take no other word beside a reference.
        return Some(Value::Object(Map::from_iter([("$ref".to_owned(), target.clone())])));
    }
    if fields.get("type").is_some_and(|kind| kind == "object") && !fields.contains_key("properties")
    {
        return None;
    }
    let mut strict = Map::with_capacity(fields.len() + 2);
    let mut bounds = Vec::new();
    for (word, value) in fields {
        match word.as_str() {
            "$schema" | "default" | "examples" | "required" => {}
            "additionalProperties" if value == &Value::Bool(false) => {}
            "type" | "title" | "description" | "enum" | "const" => {
                strict.insert(word.clone(), value.clone());
            }
            "properties" | "$defs" | "definitions" => {
                strict.insert(word.clone(), children(value, dialect, depth)?);
            }
            "items" => {
                strict.insert(word.clone(), node(value, dialect, depth + 1)?);
            }
            "anyOf" | "oneOf" => {
                let options = value.as_array()?.iter();
                let options: Option<Vec<_>> =
                    options.map(|option| node(option, dialect, depth + 1)).collect();
                strict.insert("anyOf".to_owned(), Value::Array(options?));
            }
            "format" => {
                if value.as_str().is_some_and(is_known_format) {
                    strict.insert(word.clone(), value.clone());
                }
            }
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf"
            | "minItems" | "maxItems" | "pattern" => match dialect {
                Dialect::OpenAi => {
                    strict.insert(word.clone(), value.clone());
                }
                Dialect::Anthropic => bounds.push(format!("{word}: {value}")),
            },
            "minLength" | "maxLength" if dialect == Dialect::Anthropic => {
                bounds.push(format!("{word}: {value}"));
            }
            _ => return None,
        }
    }
    close_object(fields, &mut strict, dialect);
    describe_bounds(&mut strict, &bounds);
    Some(Value::Object(strict))
}

fn children(value: &Value, dialect: Dialect, depth: usize) -> Option<Value> {
    let mut children = Map::new();
    for (name, child) in value.as_object()? {
        children.insert(name.clone(), node(child, dialect, depth + 1)?);
    }
    Some(Value::Object(children))
}

fn close_object(fields: &Map<String, Value>, strict: &mut Map<String, Value>, dialect: Dialect) {
    let Some(Value::Object(properties)) = strict.get("properties") else {
        return;
    };
    let required = match (dialect, fields.get("required")) {
        (Dialect::Anthropic, Some(required)) => required.clone(),
        (Dialect::Anthropic, None) => Value::Array(Vec::new()),
        (Dialect::OpenAi, _) => {
            Value::Array(properties.keys().cloned().map(Value::String).collect())
        }
    };
    strict.insert("required".to_owned(), required);
    strict.insert("additionalProperties".to_owned(), Value::Bool(false));
}

fn describe_bounds(strict: &mut Map<String, Value>, bounds: &[String]) {
    if bounds.is_empty() {
        return;
    }
    let mut text = match strict.get("description") {
        Some(Value::String(text)) => format!("{text} "),
        _ => String::new(),
    };
    text.push_str(&format!("({})", bounds.join(", ")));
    strict.insert("description".to_owned(), Value::String(text));
}

fn is_known_format(format: &str) -> bool {
    matches!(
        format,
        "date-time"
            | "time"
            | "date"
            | "duration"
            | "email"
            | "hostname"
            | "ipv4"
            | "ipv6"
            | "uuid"
    )
}

/// True if a definition can reach itself.
fn is_recursive(schema: &Value) -> bool {
    fn visit<'a>(root: &'a Value, value: &'a Value, open: &mut Vec<&'a str>) -> bool {
        match value {
            Value::Object(fields) => {
                if let Some(Value::String(target)) = fields.get("$ref") {
                    if open.contains(&target.as_str()) || open.len() > DEPTH_MAX {
                        return true;
                    }
                    let Some(found) = target.strip_prefix('#').and_then(|path| root.pointer(path))
                    else {
                        return false;
                    };
                    open.push(target);
                    let recursive = target == "#" || visit(root, found, open);
                    open.pop();
                    return recursive;
                }
                fields
                    .iter()
                    .filter(|(name, _)| !matches!(name.as_str(), "$defs" | "definitions"))
                    .any(|(_, child)| visit(root, child, open))
            }
            Value::Array(items) => items.iter().any(|item| visit(root, item, open)),
            _ => false,
        }
    }
    visit(schema, schema, &mut Vec::new())
}

/// A name that vendors take: letters, digits, `_` and `-`, at most 64.
pub(crate) fn name(name: &str) -> String {
    let name: String = name
        .chars()
        .take(64)
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' })
        .collect();
    if name.is_empty() { "answer".to_owned() } else { name }
}

#[cfg(test)]
mod tests;
