//! Templates over the arguments of a call, each escaped for the place where it stands.
//!
//! Invariant: a value cannot leave its place. In a path or a query it is percent-encoded, in a JSON body it is JSON, in a header
//! it is one line.

use std::sync::LazyLock;

use minijinja::value::{Rest, Serde, Value as Cell, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Output, UndefinedBehavior};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use provost_core::contract::ToolContractError;
use serde_json::Value;

use crate::limits::{REQUEST_BYTES_MAX, TEMPLATE_FUEL};
use crate::transport::fault;

/// Everything but the unreserved characters of URLs.
const ENCODED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');
/// The name under which all arguments together are known.
const ARGUMENTS: &str = "args";

/// Where a template stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In a URL, or in a form.
    Url,
    /// In JSON.
    Json,
    /// Anywhere else: text as it is.
    Text,
}

static URL: LazyLock<Environment<'static>> = LazyLock::new(|| environment(Place::Url));
static JSON: LazyLock<Environment<'static>> = LazyLock::new(|| environment(Place::Json));
static TEXT: LazyLock<Environment<'static>> = LazyLock::new(|| environment(Place::Text));

/// Fills in a template.
pub(crate) fn fill(
    place: Place,
    field: &str,
    template: &str,
    arguments: &Value,
) -> Result<String, ToolContractError> {
    if !is_template(template) {
        return Ok(template.to_owned());
    }
    let context = context(arguments);
    let filled = of(place).render_str(template, context).map_err(|error| refused(field, &error))?;
    if filled.len() > REQUEST_BYTES_MAX {
        return Err(fault::input(format!("`{field}` has more than {REQUEST_BYTES_MAX} bytes")));
    }
    Ok(filled)
}

/// Refuses a template that can never be filled in.
pub(crate) fn check(place: Place, field: &str, template: &str) -> Result<(), ToolContractError> {
    match of(place).template_from_str(template) {
        Ok(_) => Ok(()),
        Err(error) => Err(fault::definition(format!("the template `{field}`: {error}"))
            .detail("field", field.to_owned())),
    }
}

/// True if the text has anything to fill in.
pub(crate) fn is_template(text: &str) -> bool {
    ["{{", "{%", "{#"].iter().any(|mark| text.contains(mark))
}

fn of(place: Place) -> &'static Environment<'static> {
    match place {
        Place::Url => &URL,
        Place::Json => &JSON,
        Place::Text => &TEXT,
    }
}

fn context(arguments: &Value) -> Cell {
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

fn environment(place: Place) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_undefined_behavior(UndefinedBehavior::Strict);
    environment.set_fuel(Some(TEMPLATE_FUEL));
    environment.add_filter("without", without);
    environment.set_formatter(move |out, _state, value| format(place, out, value));
    environment
}

/// Writes one value. What is marked as safe is escaped like everything else: nothing here may be trusted to be.
fn format(place: Place, out: &mut Output<'_>, value: &Cell) -> Result<(), Error> {
    if value.is_undefined() {
        // Strict: a name that is not there is an error and no empty text.
        return Err(Error::from(ErrorKind::UndefinedError));
    }
    let text = match place {
        Place::Json => json(value)?,
        Place::Url => utf8_percent_encode(&plain(value)?, ENCODED).to_string(),
        Place::Text => plain(value)?,
    };
    out.write_str(&text).map_err(Error::from)
}

/// A value as text: nothing for null, JSON for what is nested.
fn plain(value: &Cell) -> Result<String, Error> {
    match value.kind() {
        ValueKind::None => Ok(String::new()),
        ValueKind::Seq | ValueKind::Map | ValueKind::Iterable => json(value),
        _ => Ok(value.to_string()),
    }
}

fn json(value: &Cell) -> Result<String, Error> {
    serde_json::to_string(value)
        .map_err(|error| Error::new(ErrorKind::BadSerialization, error.to_string()))
}

/// An object without some of its members.
fn without(value: Cell, names: Rest<String>) -> Result<Cell, Error> {
    let mut kept: Vec<(String, Cell)> = Vec::new();
    for name in value.try_iter()? {
        let Some(name) = name.as_str() else { continue };
        if !names.iter().any(|left_out| left_out == name) {
            kept.push((name.to_owned(), value.get_attr(name)?));
        }
    }
    Ok(Cell::from_pairs(kept))
}

/// Whether the arguments or the template are to blame shows in the kind of the error.
fn refused(field: &str, error: &Error) -> ToolContractError {
    let text = fault::shown(&error.to_string());
    let fault = match error.kind() {
        ErrorKind::UndefinedError => {
            fault::input(format!("`{field}` needs an argument that is not there: {text}"))
        }
        ErrorKind::SyntaxError | ErrorKind::UnknownFilter | ErrorKind::UnknownFunction => {
            fault::definition(format!("the template `{field}`: {text}"))
        }
        _ => fault::input(format!("`{field}` cannot be filled in: {text}")),
    };
    fault.detail("field", field.to_owned())
}

#[cfg(test)]
mod tests;
