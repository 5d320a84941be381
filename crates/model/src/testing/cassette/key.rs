//! What of a request tells it apart from others, and how two requests differ. Pure.

use std::sync::Arc;

use provost_core::Message;
use provost_core::text::truncate_chars;
use serde_json::{Map, Value, json};

use crate::{ChatRequest, ToolChoice};

/// Differences that are told.
const TOLD_MAX: usize = 8;
/// Characters of a value that are told.
const VALUE_CHARS_MAX: usize = 120;
/// What changes from one time to the next without being another question.
const VOLATILE: [&str; 2] = ["created_at", "model"];

/// A request as data, without the deadline and the times of messages.
pub(super) fn of(request: &ChatRequest) -> Value {
    let ChatRequest { system, messages, tools, tool_choice, settings, output, deadline: _ } =
        request;
    let mut key = of_messages(messages);
    let mut put = |name: &str, value: Value| key[name] = value;
    if let Some(system) = system {
        put("system", (**system).into());
    }
    if !tools.is_empty() {
        put("tools", tools.iter().map(|tool| data(&**tool)).collect());
    }
    if *tool_choice != ToolChoice::Auto {
        put("tool_choice", data(tool_choice));
    }
    let settings = without_nulls(data(settings));
    if settings.as_object().is_some_and(|settings| !settings.is_empty()) {
        put("settings", settings);
    }
    if let Some(output) = output {
        put("output", data(&**output));
    }
    key
}

/// What is known of a request of which only the conversation is.
pub(super) fn of_messages(messages: &[Arc<Message>]) -> Value {
    let messages = messages.iter().map(|message| {
        let mut message = data(&**message);
        if let Some(fields) = message.as_object_mut() {
            VOLATILE.iter().for_each(|name| drop(fields.remove(*name)));
        }
        message
    });
    json!({ "messages": messages.collect::<Vec<_>>() })
}

fn data(what: &impl serde::Serialize) -> Value {
    serde_json::to_value(what).unwrap_or_default()
}

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

/// True if a request is the recorded one, as far as that was recorded.
pub(super) fn matches(recorded: &Value, asked: &Value) -> bool {
    let (Value::Object(recorded), Value::Object(asked)) = (recorded, asked) else {
        return recorded == asked;
    };
    recorded.iter().all(|(name, value)| asked.get(name) == Some(value))
}

/// How a request differs from a recorded one, place by place.
pub(super) fn differences(recorded: &Value, asked: &Value) -> Vec<String> {
    let empty = Map::new();
    let (one, two) = (recorded.as_object().unwrap_or(&empty), asked.as_object().unwrap_or(&empty));
    let mut found = Vec::new();
    for (name, value) in one {
        compare(name, value, two.get(name).unwrap_or(&Value::Null), &mut found);
    }
    found
}

fn compare(place: &str, recorded: &Value, asked: &Value, found: &mut Vec<String>) {
    if recorded == asked || found.len() >= TOLD_MAX {
        return;
    }
    match (recorded, asked) {
        (Value::Object(one), Value::Object(two)) => {
            let new = two.keys().filter(|name| !one.contains_key(*name));
            for name in one.keys().chain(new) {
                let side =
                    |fields: &Map<String, Value>| fields.get(name).cloned().unwrap_or_default();
                compare(&format!("{place}/{name}"), &side(one), &side(two), found);
            }
        }
        (Value::Array(one), Value::Array(two)) => {
            for at in 0..one.len().max(two.len()) {
                let side = |items: &[Value]| items.get(at).cloned().unwrap_or_default();
                compare(&format!("{place}/{at}"), &side(one), &side(two), found);
            }
        }
        _ => found.push(format!("{place}: recorded {}, asked {}", short(recorded), short(asked))),
    }
}

fn short(value: &Value) -> String {
    let text = match value {
        Value::Null => return "nothing".to_owned(),
        other => other.to_string(),
    };
    truncate_chars(&text, VALUE_CHARS_MAX)
}
