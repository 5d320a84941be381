//! Resolution of references within a document, and conversion of OpenAPI 3.0 schemas into JSON Schemas.

use std::cell::Cell;

use serde_json::{Map, Value, json};

use crate::limits::{REFERENCE_DEPTH_MAX, SCHEMA_NODES_MAX};

/// OpenAPI keywords without a meaning in JSON Schema.
const DROPPED: [&str; 7] =
    ["discriminator", "xml", "externalDocs", "example", "nullable", "deprecated", "readOnly"];
/// Keywords whose value is data instead of a schema.
const DATA: [&str; 4] = ["enum", "const", "default", "examples"];

/// Resolves references of one document.
pub(crate) struct Resolver<'a> {
    document: &'a Value,
    /// True for OpenAPI 3.0, whose schemas differ from JSON Schema.
    is_openapi30: bool,
}

impl<'a> Resolver<'a> {
    pub(crate) fn new(document: &'a Value, version: &str) -> Self {
        Self { document, is_openapi30: version.starts_with("3.0") }
    }

    /// Returns the target of a reference, or the value itself if it is not a reference. Returns a reason if the
    /// reference is circular or its target is missing.
    pub(crate) fn follow(&self, value: &'a Value) -> Result<&'a Value, String> {
        let mut value = value;
        for _ in 0..REFERENCE_DEPTH_MAX {
            match value.get("$ref").and_then(Value::as_str) {
                None => return Ok(value),
                Some(reference) => value = self.target(reference)?,
            }
        }
        Err("a reference is circular".to_owned())
    }

    /// Returns the value to which a reference points. Returns a reason if it is missing or in another document.
    fn target(&self, reference: &str) -> Result<&'a Value, String> {
        let reference_excerpt = || crate::transport::error::truncate_for_error(reference);
        let Some(pointer) = reference.strip_prefix('#') else {
            return Err(format!(
                "`{}` refers to another document, which is not fetched",
                reference_excerpt()
            ));
        };
        let pointer = percent_encoding::percent_decode_str(pointer).decode_utf8_lossy();
        self.document
            .pointer(&pointer)
            .ok_or_else(|| format!("`{}` does not exist in the document", reference_excerpt()))
    }

    /// Returns a schema with all references inlined. A recursive reference becomes a schema that accepts any value.
    /// Returns a reason if the schema is too large.
    pub(crate) fn inline(&self, schema: &'a Value) -> Result<Value, String> {
        let walk = Walk { resolver: self, nodes: Cell::new(0) };
        walk.schema(schema, &mut Vec::new(), 0)
    }
}

/// State of inlining one schema.
struct Walk<'r, 'a> {
    resolver: &'r Resolver<'a>,
    nodes: Cell<usize>,
}

impl<'a> Walk<'_, 'a> {
    /// Counts a value. Returns a reason if there are too many.
    fn count(&self) -> Result<(), String> {
        self.nodes.set(self.nodes.get() + 1);
        if self.nodes.get() > SCHEMA_NODES_MAX {
            return Err(format!("its schema has more than {SCHEMA_NODES_MAX} values"));
        }
        Ok(())
    }

    /// Inlines a schema. `path` has the references that are being inlined.
    fn schema(
        &self,
        schema: &'a Value,
        path: &mut Vec<&'a str>,
        depth: usize,
    ) -> Result<Value, String> {
        self.count()?;
        if depth > 4 * REFERENCE_DEPTH_MAX {
            return Err("its schema is nested too deeply".to_owned());
        }
        let Value::Object(map) = schema else {
            return Ok(schema.clone());
        };
        if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
            if path.contains(&reference) || path.len() >= REFERENCE_DEPTH_MAX {
                return Ok(json!({}));
            }
            let target = self.resolver.target(reference)?;
            path.push(reference);
            let filled = self.schema(target, path, depth + 1);
            path.pop();
            return filled.map(|filled| with_description(filled, map));
        }
        let mut filled = Map::new();
        for (word, value) in map {
            if DROPPED.contains(&word.as_str()) || word.starts_with("x-") {
                continue;
            }
            let value = match (word.as_str(), value) {
                (
                    "properties" | "patternProperties" | "$defs" | "definitions",
                    Value::Object(members),
                ) => self.inline_properties(members, path, depth)?,
                (word, value) if DATA.contains(&word) => self.copy_data(value)?,
                (_, Value::Array(items)) => {
                    let items = items.iter().map(|item| self.schema(item, path, depth + 1));
                    Value::Array(items.collect::<Result<_, _>>()?)
                }
                (_, value) => self.schema(value, path, depth + 1)?,
            };
            filled.insert(word.clone(), value);
        }
        if self.resolver.is_openapi30 {
            convert_openapi30(&mut filled, map);
        }
        Ok(Value::Object(filled))
    }

    /// Inlines the properties of an object. Read-only properties are removed.
    fn inline_properties(
        &self,
        members: &'a Map<String, Value>,
        path: &mut Vec<&'a str>,
        depth: usize,
    ) -> Result<Value, String> {
        let mut filled = Map::new();
        for (name, member) in members {
            if member.get("readOnly").and_then(Value::as_bool) != Some(true) {
                filled.insert(name.clone(), self.schema(member, path, depth + 1)?);
            }
        }
        Ok(Value::Object(filled))
    }

    /// Copies a value that is not a schema.
    fn copy_data(&self, value: &Value) -> Result<Value, String> {
        self.count()?;
        if let Value::Array(items) = value {
            self.nodes.set(self.nodes.get() + items.len());
            self.count()?;
        }
        Ok(value.clone())
    }
}

/// Replaces the description of a schema by the one that accompanies its reference.
fn with_description(mut filled: Value, reference: &Map<String, Value>) -> Value {
    if let (Value::Object(filled), Some(text)) = (&mut filled, reference.get("description")) {
        filled.insert("description".to_owned(), text.clone());
    }
    filled
}

/// Converts keywords of OpenAPI 3.0 to JSON Schema.
fn convert_openapi30(filled: &mut Map<String, Value>, schema: &Map<String, Value>) {
    for (flag, bound) in [("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")] {
        match schema.get(flag) {
            Some(Value::Bool(true)) => {
                if let Some(value) = filled.remove(bound) {
                    filled.insert(flag.to_owned(), value);
                }
            }
            Some(Value::Bool(false)) => {
                filled.remove(flag);
            }
            _ => {}
        }
    }
    if schema.get("nullable").and_then(Value::as_bool) != Some(true) {
        return;
    }
    if let Some(Value::String(kind)) = filled.get("type") {
        let kinds = json!([kind, "null"]);
        filled.insert("type".to_owned(), kinds);
    }
    if let Some(Value::Array(values)) = filled.get_mut("enum")
        && !values.contains(&Value::Null)
    {
        values.push(Value::Null);
    }
}
