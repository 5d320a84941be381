//! Parameters of an operation, and the templates that place them in the request.

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;

use super::ImportContext;
use super::operation::Operation;

/// Headers that a document may list but callers do not set.
const IGNORED_HEADERS: [&str; 3] = ["accept", "content-type", "authorization"];

/// Part of the request that contains a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParameterLocation {
    Path,
    Query,
    Header,
}

/// A parameter of an operation.
#[derive(Debug)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) location: ParameterLocation,
    pub(crate) required: bool,
    pub(crate) schema: Value,
    style: String,
    explode: bool,
    /// True if the value is serialized as JSON.
    is_json: bool,
}

/// Returns the parameters of an operation. They override parameters of its path with the same name and location.
/// Returns a reason if one is not supported.
pub(crate) fn parameters_of(
    context: &ImportContext<'_>,
    operation: &Operation<'_>,
) -> Result<Vec<Parameter>, String> {
    let mut found: Vec<Parameter> = Vec::new();
    for list in [operation.item.get("parameters"), operation.described.get("parameters")] {
        for described in list.and_then(Value::as_array).into_iter().flatten() {
            let described = context.resolver.follow(described)?;
            let Some(parameter) = parse_parameter(context, described)? else { continue };
            found.retain(|old| (&old.name, old.location) != (&parameter.name, parameter.location));
            found.push(parameter);
        }
    }
    Ok(found)
}

/// Parses a parameter. `None` if it is ignored. Returns a reason if it is not supported.
fn parse_parameter<'a>(
    context: &ImportContext<'a>,
    described: &'a Value,
) -> Result<Option<Parameter>, String> {
    let text = |key: &str| described.get(key).and_then(Value::as_str).unwrap_or_default();
    let name = text("name").to_owned();
    let required = described.get("required").and_then(Value::as_bool).unwrap_or(false);
    let location = match text("in") {
        "path" => ParameterLocation::Path,
        "query" => ParameterLocation::Query,
        "header" if IGNORED_HEADERS.contains(&name.to_ascii_lowercase().as_str()) => {
            return Ok(None);
        }
        "header" => ParameterLocation::Header,
        "cookie" if !required => return Ok(None),
        other => {
            let other = crate::transport::error::truncate_for_error(other);
            return Err(format!(
                "parameter `{}` is in `{other}`",
                crate::transport::error::truncate_for_error(&name)
            ));
        }
    };
    if name.is_empty() {
        return Err("a parameter has no name".to_owned());
    }
    let content = described.get("content").and_then(Value::as_object);
    let content = content.and_then(|content| content.values().next());
    let schema = content.unwrap_or(described).get("schema");
    let mut schema = match schema {
        Some(schema) => context.resolver.inline(schema)?,
        None => serde_json::json!({}),
    };
    if let (Value::Object(map), Some(text)) = (&mut schema, described.get("description")) {
        map.insert("description".to_owned(), text.clone());
    }
    let default_style = if location == ParameterLocation::Query { "form" } else { "simple" };
    let style = if text("style").is_empty() { default_style } else { text("style") }.to_owned();
    let explode = described.get("explode").and_then(Value::as_bool);
    let explode = explode.unwrap_or(style == "form");
    let required = required || location == ParameterLocation::Path;
    Ok(Some(Parameter {
        name,
        location,
        required,
        schema,
        style,
        explode,
        is_json: content.is_some(),
    }))
}

impl Parameter {
    /// Returns true if values can have this type.
    fn has_type(&self, kind: &str) -> bool {
        match self.schema.get("type") {
            Some(Value::String(text)) => text == kind,
            Some(Value::Array(kinds)) => kinds.iter().any(|one| one == kind),
            _ => false,
        }
    }

    /// Returns the template of the value. `argument` is the template expression of the argument.
    pub(crate) fn value_template(&self, argument: &str) -> String {
        if self.has_type("array") && !self.is_json {
            let between = match self.style.as_str() {
                "pipeDelimited" => "|",
                "spaceDelimited" => " ",
                _ => ",",
            };
            return format!("{{{{ {argument}|default([])|join({between:?}) }}}}");
        }
        match self.required {
            true => format!("{{{{ {argument} }}}}"),
            false => format!("{{{{ {argument}|default(\"\") }}}}"),
        }
    }

    /// Returns the query template, if the parameter expands into several pairs. `None` if it has one value.
    pub(crate) fn query_template(&self, argument: &str) -> Option<String> {
        if self.location != ParameterLocation::Query || self.is_json {
            return None;
        }
        let name = utf8_percent_encode(&self.name, NON_ALPHANUMERIC);
        if self.has_type("array") && self.style == "form" && self.explode {
            return Some(format!(
                "{{% for value in {argument}|default([]) %}}{name}={{{{ value }}}}&{{% endfor %}}"
            ));
        }
        if !self.has_type("object") {
            return None;
        }
        let key = match (self.style.as_str(), self.explode) {
            ("deepObject", _) => format!("{name}%5B{{{{ key }}}}%5D"),
            ("form", true) => "{{ key }}".to_owned(),
            _ => return None,
        };
        Some(format!(
            "{{% for key in {argument}|default({{}}) %}}{key}={{{{ {argument}[key] }}}}&{{% endfor %}}"
        ))
    }
}
