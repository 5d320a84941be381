//! Converts JSON Schemas into the strict subsets that vendors can enforce.
//!
//! A strict schema never allows more than the original: no other properties may appear. If a schema cannot be expressed
//! in the subset, the result is `None`, and the caller sends the schema as a hint.

use serde_json::{Map, Value};

/// Largest nesting of a schema that is converted.
const DEPTH_MAX: usize = 64;

/// Vendor whose strict subset of JSON Schema applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchemaDialect {
    /// OpenAI: all properties are required, and limits of numbers and arrays are allowed.
    OpenAi,
    /// Anthropic: optional properties are allowed. Limits are not allowed and move to the description.
    Anthropic,
}

/// Converts a schema to the strict subset of a vendor. `None` if the subset cannot express it.
pub(crate) fn to_strict(schema: &Value, dialect: SchemaDialect) -> Option<Value> {
    let root = schema.as_object()?;
    let is_object = root.get("type").is_some_and(|kind| kind == "object");
    if !is_object || root.contains_key("anyOf") || root.contains_key("oneOf") {
        return None;
    }
    if dialect == SchemaDialect::Anthropic && is_recursive(schema) {
        return None;
    }
    convert_node(schema, dialect, 0)
}

/// Converts a schema at a depth. `None` if the subset cannot express it.
fn convert_node(schema: &Value, dialect: SchemaDialect, depth: usize) -> Option<Value> {
    let fields = schema.as_object()?;
    if depth > DEPTH_MAX {
        return None;
    }
    if let Some(target) = fields.get("$ref") {
        // Vendors accept no other keyword next to a reference.
        return Some(Value::Object(Map::from_iter([("$ref".to_owned(), target.clone())])));
    }
    if fields.get("type").is_some_and(|kind| kind == "object") && !fields.contains_key("properties")
    {
        return None;
    }
    let mut strict = Map::with_capacity(fields.len() + 2);
    let mut bounds = Vec::new();
    for (keyword, value) in fields {
        match keyword.as_str() {
            "$schema" | "default" | "examples" | "required" => {}
            "additionalProperties" if value == &Value::Bool(false) => {}
            "type" | "title" | "description" | "enum" | "const" => {
                strict.insert(keyword.clone(), value.clone());
            }
            "properties" | "$defs" | "definitions" => {
                strict.insert(keyword.clone(), convert_children(value, dialect, depth)?);
            }
            "items" => {
                strict.insert(keyword.clone(), convert_node(value, dialect, depth + 1)?);
            }
            "anyOf" | "oneOf" => {
                let options = value.as_array()?.iter();
                let options: Option<Vec<_>> =
                    options.map(|option| convert_node(option, dialect, depth + 1)).collect();
                strict.insert("anyOf".to_owned(), Value::Array(options?));
            }
            "format" => {
                if value.as_str().is_some_and(is_known_format) {
                    strict.insert(keyword.clone(), value.clone());
                }
            }
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" | "multipleOf"
            | "minItems" | "maxItems" | "pattern" => match dialect {
                SchemaDialect::OpenAi => {
                    strict.insert(keyword.clone(), value.clone());
                }
                SchemaDialect::Anthropic => bounds.push(format!("{keyword}: {value}")),
            },
            "minLength" | "maxLength" if dialect == SchemaDialect::Anthropic => {
                bounds.push(format!("{keyword}: {value}"));
            }
            _ => return None,
        }
    }
    close_object(fields, &mut strict, dialect);
    describe_bounds(&mut strict, &bounds);
    Some(Value::Object(strict))
}

/// Converts the schemas in the fields of an object. `None` if the subset cannot express one of them.
fn convert_children(value: &Value, dialect: SchemaDialect, depth: usize) -> Option<Value> {
    let mut children = Map::new();
    for (name, child) in value.as_object()? {
        children.insert(name.clone(), convert_node(child, dialect, depth + 1)?);
    }
    Some(Value::Object(children))
}

/// Forbids additional properties, and sets the required properties as the vendor demands.
fn close_object(
    fields: &Map<String, Value>,
    strict: &mut Map<String, Value>,
    dialect: SchemaDialect,
) {
    let Some(Value::Object(properties)) = strict.get("properties") else {
        return;
    };
    let required = match (dialect, fields.get("required")) {
        (SchemaDialect::Anthropic, Some(required)) => required.clone(),
        (SchemaDialect::Anthropic, None) => Value::Array(Vec::new()),
        (SchemaDialect::OpenAi, _) => {
            Value::Array(properties.keys().cloned().map(Value::String).collect())
        }
    };
    strict.insert("required".to_owned(), required);
    strict.insert("additionalProperties".to_owned(), Value::Bool(false));
}

/// Appends bounds that the subset cannot express to the description.
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

/// Returns true if the vendors support the format.
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

/// Returns true if a definition refers to itself, directly or through other definitions.
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

/// Converts a schema name to a name that vendors accept: letters, digits, `_` and `-`, at most 64 characters. An empty
/// name becomes `answer`.
pub(crate) fn sanitize_name(name: &str) -> String {
    let name: String = name
        .chars()
        .take(64)
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' })
        .collect();
    if name.is_empty() { "answer".to_owned() } else { name }
}

#[cfg(test)]
mod tests;
