//! Fields that identify a request, and differences between two requests. Pure.

use std::sync::Arc;

use provost_core::Message;
use provost_core::text::truncate_chars;
use serde_json::{Map, Value, json};

use crate::{ChatRequest, ToolChoice};

/// Largest number of reported differences.
const DIFFERENCES_MAX: usize = 8;
/// Largest number of characters of a reported value.
const VALUE_CHARS_MAX: usize = 120;
/// Fields that change between runs and do not identify a request.
const VOLATILE: [&str; 2] = ["created_at", "model"];

/// Returns the fields of a request that identify it as JSON. Omits the deadline, the times of its messages and default
/// settings.
pub(super) fn request_key(request: &ChatRequest) -> Value {
    let ChatRequest { system, messages, tools, tool_choice, settings, output, deadline: _ } =
        request;
    let mut key = messages_key(messages);
    let mut set = |name: &str, value: Value| key[name] = value;
    if let Some(system) = system {
        set("system", (**system).into());
    }
    if !tools.is_empty() {
        set("tools", tools.iter().map(|tool| to_json(&**tool)).collect());
    }
    if *tool_choice != ToolChoice::Auto {
        set("tool_choice", to_json(tool_choice));
    }
    let settings = without_nulls(to_json(settings));
    if settings.as_object().is_some_and(|settings| !settings.is_empty()) {
        set("settings", settings);
    }
    if let Some(output) = output {
        set("output", to_json(&**output));
    }
    key
}

/// Returns the identifying fields of a request of which only the messages are known.
pub(super) fn messages_key(messages: &[Arc<Message>]) -> Value {
    let messages = messages.iter().map(|message| {
        let mut message = to_json(&**message);
        if let Some(fields) = message.as_object_mut() {
            VOLATILE.iter().for_each(|name| drop(fields.remove(*name)));
        }
        message
    });
    json!({ "messages": messages.collect::<Vec<_>>() })
}

fn to_json(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// Removes the fields of an object that are null or empty. Returns other values unchanged.
fn without_nulls(value: Value) -> Value {
    let Value::Object(fields) = value else { return value };
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    };
    Value::Object(fields.into_iter().filter(|(_, value)| !is_empty(value)).collect())
}

/// Returns true if a request equals the recorded one in all recorded fields.
pub(super) fn matches(recorded: &Value, requested: &Value) -> bool {
    let (Value::Object(recorded), Value::Object(requested)) = (recorded, requested) else {
        return recorded == requested;
    };
    recorded.iter().all(|(name, value)| requested.get(name) == Some(value))
}

/// Returns a description of each difference between a request and a recorded request, with its path. Fields that were
/// not recorded are ignored.
pub(super) fn compare_requests(recorded: &Value, requested: &Value) -> Vec<String> {
    let empty = Map::new();
    let (one, two) =
        (recorded.as_object().unwrap_or(&empty), requested.as_object().unwrap_or(&empty));
    let mut differences = Vec::new();
    for (name, value) in one {
        compare(name, value, two.get(name).unwrap_or(&Value::Null), &mut differences);
    }
    differences
}

/// Appends the differences between two values to `differences`, up to [`DIFFERENCES_MAX`].
fn compare(path: &str, recorded: &Value, requested: &Value, differences: &mut Vec<String>) {
    if recorded == requested || differences.len() >= DIFFERENCES_MAX {
        return;
    }
    match (recorded, requested) {
        (Value::Object(one), Value::Object(two)) => {
            let new = two.keys().filter(|name| !one.contains_key(*name));
            for name in one.keys().chain(new) {
                let side =
                    |fields: &Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                compare(&format!("{path}/{name}"), &side(one), &side(two), differences);
            }
        }
        (Value::Array(one), Value::Array(two)) => {
            for at in 0..one.len().max(two.len()) {
                let side = |items: &[Value]| items.get(at).cloned().unwrap_or_default();
                compare(&format!("{path}/{at}"), &side(one), &side(two), differences);
            }
        }
        _ => differences.push(format!(
            "{path}: recorded {}, requested {}",
            excerpt(recorded),
            excerpt(requested)
        )),
    }
}

/// Returns a value as text of limited length, or `nothing` for null.
fn excerpt(value: &Value) -> String {
    let text = match value {
        Value::Null => return "nothing".to_owned(),
        other => other.to_string(),
    };
    truncate_chars(&text, VALUE_CHARS_MAX)
}
