//! Filters and functions in addition to the functions of minijinja, for prompts written for other template languages.

use minijinja::value::{Rest, ValueKind};
use minijinja::{Environment, Error, ErrorKind, Value};

pub(super) fn add_all(environment: &mut Environment<'static>) {
    environment.add_filter("trim_prefix", |text: &str, prefix: &str| {
        text.strip_prefix(prefix).unwrap_or(text).to_owned()
    });
    environment.add_filter("trim_suffix", |text: &str, suffix: &str| {
        text.strip_suffix(suffix).unwrap_or(text).to_owned()
    });
    environment.add_filter("contains", |text: &str, part: &str| text.contains(part));
    environment.add_filter("has_prefix", |text: &str, prefix: &str| text.starts_with(prefix));
    environment.add_filter("has_suffix", |text: &str, suffix: &str| text.ends_with(suffix));
    environment.add_filter("split", |text: &str, separator: &str| {
        text.split(separator).map(str::to_owned).collect::<Vec<String>>()
    });
    environment.add_filter("first", |list: &Value| edge(list, /*last*/ false));
    environment.add_filter("last", |list: &Value| edge(list, /*last*/ true));
    environment
        .add_filter("nindent", |text: &str, width: usize| format!("\n{}", indented(text, width)));
    environment.add_filter("quote", |value: &Value| format!("{:?}", value.to_string()));
    environment.add_filter("squote", |value: &Value| format!("'{value}'"));
    environment.add_function("coalesce", |values: Rest<Value>| {
        values.iter().find(|value| !is_empty(value)).cloned().unwrap_or_else(|| Value::from(""))
    });
    environment.add_function("empty", |value: &Value| is_empty(value));
    environment.add_function(
        "ternary",
        |yes: Value, no: Value, condition: bool| {
            if condition { yes } else { no }
        },
    );
    environment.add_function("list", |values: Rest<Value>| values.0);
}

/// Returns the first or last item of a list, or an empty string for an empty list.
fn edge(list: &Value, last: bool) -> Result<Value, Error> {
    let items: Vec<Value> = list
        .try_iter()
        .map_err(|error| {
            Error::new(ErrorKind::InvalidOperation, "first and last need a list").with_source(error)
        })?
        .collect();
    let item = if last { items.last() } else { items.first() };
    Ok(item.cloned().unwrap_or_else(|| Value::from("")))
}

fn indented(text: &str, width: usize) -> String {
    let pad = " ".repeat(width);
    let lines: Vec<String> = text.lines().map(|line| format!("{pad}{line}")).collect();
    lines.join("\n")
}

/// Returns true for undefined, none, zero, false and values of length zero.
fn is_empty(value: &Value) -> bool {
    match value.kind() {
        ValueKind::Undefined | ValueKind::None => true,
        ValueKind::Bool => !value.is_true(),
        ValueKind::Number => !value.is_true(),
        _ => value.len() == Some(0),
    }
}
