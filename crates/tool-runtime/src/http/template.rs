//! Templates over the arguments of a call, with escaping by context.
//!
//! Invariant: a value cannot break out of its context. It is percent-encoded in a path or a query, JSON in a JSON body,
//! and a single line in a header.

use std::sync::LazyLock;

use minijinja::value::{Rest, Serde, Value as Cell, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, UndefinedBehavior};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use provost_core::contract::ToolContractError;
use serde_json::Value;

use crate::limits::{REQUEST_BYTES_MAX, TEMPLATE_FUEL};
use crate::transport::error;

/// All characters except the unreserved characters of URLs.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// Variable that holds all arguments.
const ARGUMENTS: &str = "args";

/// How values are escaped in a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Escape {
    /// Percent-encoding for a URL or a form.
    Url,
    /// JSON.
    Json,
    /// No escaping.
    None,
}

static URL: LazyLock<Environment<'static>> = LazyLock::new(|| environment(Escape::Url));
static JSON: LazyLock<Environment<'static>> = LazyLock::new(|| environment(Escape::Json));
static TEXT: LazyLock<Environment<'static>> = LazyLock::new(|| environment(Escape::None));

/// Renders a template with the arguments of a call. Returns an error if an argument is missing or the result is too
/// large.
pub(crate) fn render(
    escape: Escape,
    field: &str,
    template: &str,
    arguments: &Value,
) -> Result<String, ToolContractError> {
    if !is_template(template) {
        return Ok(template.to_owned());
    }
    let context = template_context(arguments);
    let filled = environment_for(escape)
        .render_str(template, context)
        .map_err(|error| template_error(field, &error))?;
    if filled.len() > REQUEST_BYTES_MAX {
        return Err(error::invalid_input(format!(
            "`{field}` has more than {REQUEST_BYTES_MAX} bytes"
        )));
    }
    Ok(filled)
}

/// Returns an error if the template has invalid syntax.
pub(crate) fn check(escape: Escape, field: &str, template: &str) -> Result<(), ToolContractError> {
    match environment_for(escape).template_from_str(template) {
        Ok(_) => Ok(()),
        Err(error) => Err(error::invalid_definition(format!("the template `{field}`: {error}"))
            .detail("field", field.to_owned())),
    }
}

/// Returns true if the text contains template syntax.
pub(crate) fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

fn environment_for(escape: Escape) -> &'static Environment<'static> {
    match escape {
        Escape::Url => &URL,
        Escape::Json => &JSON,
        Escape::None => &TEXT,
    }
}

/// Returns the variables of a template: each argument by its name, and all arguments.
fn template_context(arguments: &Value) -> Cell {
    let all = Cell::from(Serde(arguments));
    let mut names: Vec<(String, Cell)> = match arguments {
        Value::Object(map) => {
            map.iter().map(|(name, value)| (name.clone(), Cell::from(Serde(value)))).collect()
        }
        _ => Vec::new(),
    };
    names.push((ARGUMENTS.to_owned(), all));
    Cell::from_pairs(names)
}

/// Creates the template engine for an escaping.
fn environment(escape: Escape) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(TEMPLATE_FUEL));
    environment.add_filter("without", omit);
    environment.set_formatter(move |out, _state, value| format(escape, out, value));
    environment
}

/// Writes a value with escaping. Values marked as safe are escaped too, because arguments are never trusted.
fn format(escape: Escape, out: &mut Output<'_>, value: &Cell) -> Result<(), Error> {
    if value.is_undefined() {
        // An undefined variable is an error instead of an empty text.
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let text = match escape {
        Escape::Json => to_json(value)?,
        Escape::Url => utf8_percent_encode(&to_plain_text(value)?, ENCODED).to_string(),
        Escape::None => to_plain_text(value)?,
    };
    out.write_str(&text).map_err(Error::from)
}

/// Converts a value to text: empty for null, JSON for nested values.
fn to_plain_text(value: &Cell) -> Result<String, Error> {
    match value.kind() {
        ValueKind::None => Ok(String::new()),
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => to_json(value),
        _ => Ok(value.to_string()),
    }
}

fn to_json(value: &Cell) -> Result<String, Error> {
    serde_json::to_string(value)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}

/// Template filter `without`: returns an object without the named properties.
fn omit(value: Cell, names: Rest<String>) -> Result<Cell, Error> {
    let mut remaining: Vec<(String, Cell)> = Vec::new();
    for name in value.try_iter()? {
        let Some(name) = name.as_str() else { continue };
        if !names.iter().any(|left_out| left_out == name) {
            remaining.push((name.to_owned(), value.get_attr(name)?));
        }
    }
    Ok(Cell::from_pairs(remaining))
}

/// Converts a template error. The error code shows whether the arguments or the template are invalid.
fn template_error(field: &str, error: &Error) -> ToolContractError {
    let text = error::truncate_for_error(&error.to_string());
    let fault = match error.kind() {
        ErrorKind::UndefinedError => {
            error::invalid_input(format!("`{field}` requires a missing argument: {text}"))
        }
        ErrorKind::SyntaxError | ErrorKind::UnknownFilter | ErrorKind::UnknownFunction => {
            error::invalid_definition(format!("the template `{field}`: {text}"))
        }
        _ => error::invalid_input(format!("`{field}` cannot be rendered: {text}")),
    };
    fault.detail("field", field.to_owned())
}

#[cfg(test)]
mod tests;
