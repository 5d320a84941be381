//! Messages in the form of the GenAI conventions, for exporters that request content. Bounded, and without the bytes
//! of media.

use std::sync::Arc;

use provost_core::text::first_bytes;
use provost_core::{ContentPart, MediaSource, Message, Role, ToolCall, ToolResult};
use serde_json::{Value, json};

/// Maximum bytes of one text. Longer texts are truncated.
const TEXT_BYTES_MAX: usize = 16 * 1024;
/// Maximum bytes of all messages of one attribute. The oldest messages are omitted.
const MESSAGES_BYTES_MAX: usize = 256 * 1024;

pub(super) fn instructions(text: &str) -> String {
    json!([{ "type": "text", "content": first_bytes(text, TEXT_BYTES_MAX) }]).to_string()
}

/// One text as a message list.
pub(super) fn text(role: Role, text: &str) -> String {
    json!([{ "role": role_name(role), "parts": [{ "type": "text", "content": first_bytes(text, TEXT_BYTES_MAX) }] }])
        .to_string()
}

/// Returns a conversation, in the order in which it was sent.
pub(super) fn messages(messages: &[Arc<Message>]) -> String {
    let mut bytes = 0;
    let mut newest_first = Vec::new();
    for message in messages.iter().rev() {
        let one = value(message).to_string();
        bytes += one.len();
        if bytes > MESSAGES_BYTES_MAX && !newest_first.is_empty() {
            break;
        }
        newest_first.push(one);
    }
    newest_first.reverse();
    format!("[{}]", newest_first.join(","))
}

/// One message, as a list.
pub(super) fn message(message: &Message) -> String {
    Value::Array(vec![value(message)]).to_string()
}

/// Returns the arguments of a tool call.
pub(super) fn arguments(call: &ToolCall) -> String {
    first_bytes(&call.arguments, TEXT_BYTES_MAX).to_owned()
}

/// Returns the output of a tool call.
pub(super) fn result(text: &str) -> String {
    first_bytes(text, TEXT_BYTES_MAX).to_owned()
}

fn value(message: &Message) -> Value {
    let parts: Vec<Value> = message.parts.iter().map(part).collect();
    json!({ "role": role_name(message.role), "parts": parts })
}

fn role_name(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::User | Role::Summary => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

fn part(part: &ContentPart) -> Value {
    match part {
        ContentPart::Text { text } => {
            json!({ "type": "text", "content": first_bytes(text, TEXT_BYTES_MAX) })
        }
        ContentPart::Reasoning(reasoning) => {
            json!({ "type": "reasoning", "content": first_bytes(&reasoning.text, TEXT_BYTES_MAX) })
        }
        ContentPart::Image(image) => media("image", &image.source),
        ContentPart::Document(document) => media("document", &document.source),
        ContentPart::ToolCall(call) => tool_call(call),
        ContentPart::ToolResult(result) => tool_result(result),
        ContentPart::Unknown(_) => json!({ "type": "unknown" }),
    }
}

fn tool_call(call: &ToolCall) -> Value {
    let whole = call.arguments.len() <= TEXT_BYTES_MAX;
    let parsed = call.parse_arguments().ok().filter(|_| whole);
    let arguments = parsed.unwrap_or_else(|| first_bytes(&call.arguments, TEXT_BYTES_MAX).into());
    json!({ "type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments })
}

fn tool_result(result: &ToolResult) -> Value {
    json!({
        "type": "tool_call_response",
        "id": result.call_id,
        "response": first_bytes(&result.to_text(), TEXT_BYTES_MAX),
    })
}

/// Returns the location of media. The bytes are omitted.
fn media(modality: &str, source: &MediaSource) -> Value {
    match source {
        MediaSource::Url(url) => {
            json!({ "type": "uri", "modality": modality, "uri": first_bytes(url, TEXT_BYTES_MAX) })
        }
        MediaSource::Base64 { media_type, .. } => {
            json!({ "type": "blob", "modality": modality, "mime_type": media_type, "content": "" })
        }
    }
}

#[cfg(test)]
mod tests {
    use provost_core::Image;

    use super::*;

    fn parsed(text: &str) -> Value {
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn messages_are_in_the_words_of_the_conventions() {
        let call = ToolCall::new("c1", "echo", &json!({"text": "hi"}));
        let mut seen = Message::user("look");
        seen.parts.push(Image::bytes("image/png", b"many bytes").into());
        let history = [
            seen,
            Message::calls([call.clone()]),
            Message::results([ToolResult::text(&call, "hi")]),
            Message::summary("what was said"),
        ];
        let history: Vec<_> = history.into_iter().map(Arc::new).collect();
        let expected = json!([
            { "role": "user", "parts": [
                { "type": "text", "content": "look" },
                { "type": "blob", "modality": "image", "mime_type": "image/png", "content": "" },
            ]},
            { "role": "assistant", "parts": [
                { "type": "tool_call", "id": "c1", "name": "echo", "arguments": { "text": "hi" } },
            ]},
            { "role": "tool", "parts": [
                { "type": "tool_call_response", "id": "c1", "response": "hi" },
            ]},
            { "role": "user", "parts": [{ "type": "text", "content": "what was said" }] },
        ]);
        assert_eq!(parsed(&messages(&history)), expected);
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let text = format!("a{}", "é".repeat(TEXT_BYTES_MAX));
        let kept = parsed(&message(&Message::assistant(text)));
        let kept = kept[0]["parts"][0]["content"].as_str().unwrap();
        assert_eq!(kept.len(), TEXT_BYTES_MAX - 1);
    }

    #[test]
    fn of_a_long_conversation_the_newest_messages_are_kept() {
        let line = "x".repeat(TEXT_BYTES_MAX);
        let said = |number: usize| Arc::new(Message::user(format!("{number} {line}")));
        let history: Vec<_> = (0..100).map(said).collect();
        let text = messages(&history);
        assert!(text.len() <= MESSAGES_BYTES_MAX, "{}", text.len());
        let kept = parsed(&text);
        let last = kept.as_array().unwrap().last().unwrap().clone();
        assert!(last["parts"][0]["content"].as_str().unwrap().starts_with("99 "));
    }
}
