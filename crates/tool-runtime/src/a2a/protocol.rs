//! Messages of A2A 1.0, as far as a client needs them.

use provost_core::contract::ToolContractError;
use provost_core::{Document, Image, MediaSource, ToolResultPart};
use provost_tool::ToolOutput;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::limits::PARTS_MAX;
use crate::transport::excerpt::ErrorExcerpt;

/// Supported protocol version.
pub(crate) const VERSION: &str = "1.0";

/// Agent card. Unused fields are omitted.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Card {
    #[serde(default)]
    pub(crate) supported_interfaces: Vec<Interface>,
}

/// Interface of an agent.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(crate) struct Interface {
    pub(crate) url: String,
    pub(crate) protocol_binding: String,
    pub(crate) protocol_version: String,
    pub(crate) tenant: String,
}

/// Task of an agent.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub(crate) struct Task {
    pub(crate) id: String,
    pub(crate) context_id: String,
    pub(crate) status: Status,
    pub(crate) artifacts: Vec<Artifact>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Status {
    pub(crate) state: String,
    pub(crate) message: Option<Message>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Artifact {
    pub(crate) parts: Vec<Value>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct Message {
    pub(crate) parts: Vec<Value>,
    pub(crate) context_id: String,
}

/// Result of `SendMessage`: a message or a task.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum SendMessageResult {
    /// The agent created a task.
    Task(Task),
    /// The agent responded immediately.
    Message(Message),
}

/// State of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Working,
    Completed,
    Failed,
    Canceled,
    Rejected,
    InputRequired,
    AuthRequired,
    /// Any other value.
    Other,
}

impl State {
    /// Parses the name of a state. An unknown name is `Other`.
    pub(crate) fn parse(word: &str) -> Self {
        match word {
            "TASK_STATE_SUBMITTED" | "TASK_STATE_WORKING" => Self::Working,
            "TASK_STATE_COMPLETED" => Self::Completed,
            "TASK_STATE_FAILED" => Self::Failed,
            "TASK_STATE_CANCELED" => Self::Canceled,
            "TASK_STATE_REJECTED" => Self::Rejected,
            "TASK_STATE_INPUT_REQUIRED" => Self::InputRequired,
            "TASK_STATE_AUTH_REQUIRED" => Self::AuthRequired,
            _ => Self::Other,
        }
    }
}

/// Encodes a JSON-RPC request.
pub(crate) fn encode_call(id: &str, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// Decodes the JSON-RPC response to the request with this id. Returns an error if it reports one or is malformed.
pub(crate) fn decode_result(
    body: &[u8],
    id: &str,
    excerpt: &ErrorExcerpt,
) -> Result<Value, ToolContractError> {
    let malformed = |problem: &str| {
        ToolContractError::final_failure(format!("the agent violates JSON-RPC: {problem}"))
    };
    let mut response: Map<String, Value> = serde_json::from_slice(body)
        .map_err(|error| malformed(&excerpt.text(&error.to_string())))?;
    if let Some(error) = response.get("error").filter(|error| !error.is_null()) {
        let code = error.get("code").and_then(Value::as_i64).unwrap_or_default();
        let message = error.get("message").and_then(Value::as_str).unwrap_or_default();
        let message = format!("the agent returned error {code}: {}", excerpt.text(message));
        let fault = match code {
            // An internal error may be temporary.
            INTERNAL_ERROR => ToolContractError::new(
                provost_core::contract::ToolErrorCode::ExecutionFailed,
                message,
            ),
            _ => ToolContractError::final_failure(message),
        };
        return Err(fault.detail("rpc_code", code.to_string()));
    }
    if response.get("id").and_then(Value::as_str) != Some(id) {
        return Err(malformed("the response belongs to another request"));
    }
    response
        .remove("result")
        .ok_or_else(|| malformed("the response has neither a result nor an error"))
}

/// JSON-RPC code for internal errors.
const INTERNAL_ERROR: i64 = -32603;

/// Converts the arguments of a call to message parts: `message` as text, and everything else as data.
pub(crate) fn message_parts(arguments: &Value) -> Vec<Value> {
    let Value::Object(members) = arguments else {
        return vec![json!({ "text": arguments.to_string() })];
    };
    let mut rest = members.clone();
    let text = match rest.remove("message") {
        Some(Value::String(text)) => text,
        // Agents that only read text receive all arguments as text.
        _ => return vec![json!({ "text": arguments.to_string() })],
    };
    let mut parts = vec![json!({ "text": text })];
    if !rest.is_empty() {
        parts.push(json!({ "data": rest, "mediaType": "application/json" }));
    }
    parts
}

/// Converts the parts of a response to a tool output. Parts beyond the limit are dropped with a note.
pub(crate) fn parts_output<'a>(
    parts: impl Iterator<Item = &'a Value>,
    excerpt: &ErrorExcerpt,
) -> ToolOutput {
    let mut output = ToolOutput::default();
    for (count, part) in parts.enumerate() {
        if count == PARTS_MAX {
            output.parts.push(text("[further parts omitted]"));
            break;
        }
        output.parts.push(to_part(part, excerpt));
    }
    if output.parts.is_empty() {
        output.parts.push(text("done"));
    }
    output
}

/// Returns the redacted and cut text of a message. Empty if there is none.
pub(crate) fn message_text(message: Option<&Message>, excerpt: &ErrorExcerpt) -> String {
    let parts = message.map(|message| message.parts.as_slice()).unwrap_or_default();
    let texts = parts.iter().filter_map(|part| part.get("text").and_then(Value::as_str));
    excerpt.text(&texts.collect::<Vec<_>>().join(" "))
}

fn text(text: impl Into<String>) -> ToolResultPart {
    ToolResultPart::Text { text: text.into() }
}

/// Converts a part of a response. A part with invalid data becomes a note.
fn to_part(part: &Value, excerpt: &ErrorExcerpt) -> ToolResultPart {
    let string = |key: &str| part.get(key).and_then(Value::as_str);
    if let Some(content) = string("text") {
        return text(content);
    }
    if let Some(data) = part.get("data") {
        return text(data.to_string());
    }
    let media_type = string("mediaType").unwrap_or("application/octet-stream").to_owned();
    let name = string("filename").map(str::to_owned);
    let source = match (string("raw"), string("url")) {
        (Some(raw), _) => {
            let source =
                MediaSource::Base64 { media_type: media_type.clone(), data: raw.to_owned() };
            if source.decode().is_none() {
                return text(format!(
                    "[a {} omitted: it is not valid base 64]",
                    excerpt.text(&media_type)
                ));
            }
            source
        }
        // The URL is not fetched.
        (None, Some(url)) => {
            return text(format!("[file {}: {}]", excerpt.text(url), excerpt.text(&media_type)));
        }
        (None, None) => return text(excerpt.text(&part.to_string())),
    };
    match media_type.starts_with("image/") {
        true => ToolResultPart::Image(Image { source, detail: None }),
        false => ToolResultPart::File(Document { source, name }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_become_parts() {
        assert_eq!(message_parts(&json!({"message": "hi"})), [json!({"text": "hi"})]);
        let both = message_parts(&json!({"message": "hi", "n": 1}));
        assert_eq!(both[1], json!({"data": {"n": 1}, "mediaType": "application/json"}));
        assert_eq!(message_parts(&json!({"n": 1})), [json!({"text": "{\"n\":1}"})]);
    }

    #[test]
    fn parts_become_output() {
        let parts = [
            json!({"text": "a"}),
            json!({"data": {"b": 1}}),
            json!({"raw": "aGk=", "mediaType": "image/png"}),
            json!({"raw": "aGk=", "mediaType": "text/csv", "filename": "x.csv"}),
            json!({"raw": "%%%"}),
            json!({"url": "https://x/y"}),
            json!({"odd": true}),
        ];
        let output = parts_output(parts.iter(), &ErrorExcerpt::default());
        assert!(matches!(output.parts[2], ToolResultPart::Image(_)));
        assert!(
            matches!(&output.parts[3], ToolResultPart::File(file) if file.name.as_deref() == Some("x.csv"))
        );
        assert!(
            matches!(&output.parts[4], ToolResultPart::Text { text } if text.contains("omitted"))
        );
        assert!(output.to_text().starts_with("a\n{\"b\":1}\n"));
    }

    #[test]
    fn an_answer_must_be_ours() {
        let result = |body: &[u8], id: &str| decode_result(body, id, &ErrorExcerpt::default());
        assert!(result(br#"{"jsonrpc":"2.0","id":"1","result":{}}"#, "1").is_ok());
        assert!(result(br#"{"jsonrpc":"2.0","id":"2","result":{}}"#, "1").is_err());
        assert!(result(br#"{"jsonrpc":"2.0","id":"1"}"#, "1").is_err());
        assert!(result(b"[]", "1").is_err());
        let fault =
            result(br#"{"id":null,"error":{"code":-32603,"message":"oh"}}"#, "1").unwrap_err();
        assert!(fault.retryable && fault.details["rpc_code"] == "-32603");
        let fault =
            result(br#"{"id":"1","error":{"code":-32602,"message":"no"}}"#, "1").unwrap_err();
        assert!(!fault.retryable);
    }
}
