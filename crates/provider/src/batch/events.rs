//! Converts complete responses into the events of a stream, so that one decoder per vendor reads both.

use provost_model::{ModelError, ModelResponse, ResponseAccumulator};
use serde_json::{Value, json};

use crate::wire::{DecodeStatus, Decoder, SseEvent, WireFormat};

/// Decodes the events and collects them into a response.
pub(super) fn accumulate(
    wire: &dyn WireFormat,
    events: &[(&str, Value)],
) -> Result<ModelResponse, ModelError> {
    let mut decoder: Box<dyn Decoder> = wire.decoder();
    let (mut out, mut accumulator) = (Vec::new(), ResponseAccumulator::default());
    let mut is_done = false;
    for (event, data) in events {
        let data = data.to_string();
        let event = SseEvent { event: event.as_bytes(), data: data.as_bytes() };
        if decoder.push(&event, &mut out)? == DecodeStatus::Done {
            is_done = true;
            break;
        }
    }
    if !is_done {
        decoder.finish(&mut out)?;
    }
    for event in &out {
        accumulator.push(event)?;
    }
    accumulator.finish()
}

/// Converts a response of OpenAI's Chat Completions into one chunk of a stream.
pub(super) fn openai_events(mut response: Value) -> Vec<(&'static str, Value)> {
    for choice in response["choices"].as_array_mut().into_iter().flatten() {
        let mut delta = choice["message"].take();
        for (index, call) in delta["tool_calls"].as_array_mut().into_iter().flatten().enumerate() {
            call["index"] = index.into();
        }
        choice["delta"] = delta;
    }
    response["object"] = "chat.completion.chunk".into();
    vec![("", response)]
}

/// Converts a message of Anthropic into the events of a stream.
pub(super) fn anthropic_events(mut message: Value) -> Vec<(&'static str, Value)> {
    let content = message["content"].take();
    let (stop, usage) = (message["stop_reason"].clone(), message["usage"].clone());
    message["content"] = json!([]);
    let mut events =
        vec![("message_start", json!({ "type": "message_start", "message": message }))];
    for (index, block) in content.as_array().into_iter().flatten().enumerate() {
        let mut start = block.clone();
        let mut deltas = Vec::new();
        match block["type"].as_str() {
            Some("text") => {
                start["text"] = "".into();
                deltas.push(json!({ "type": "text_delta", "text": block["text"] }));
            }
            Some("tool_use") => {
                start["input"] = json!({});
                let input = block["input"].to_string();
                deltas.push(json!({ "type": "input_json_delta", "partial_json": input }));
            }
            Some("thinking") => {
                (start["thinking"], start["signature"]) = ("".into(), "".into());
                deltas.push(json!({ "type": "thinking_delta", "thinking": block["thinking"] }));
                deltas.push(json!({ "type": "signature_delta", "signature": block["signature"] }));
            }
            _ => {}
        }
        let start =
            json!({ "type": "content_block_start", "index": index, "content_block": start });
        events.push(("content_block_start", start));
        for delta in deltas {
            let delta = json!({ "type": "content_block_delta", "index": index, "delta": delta });
            events.push(("content_block_delta", delta));
        }
        events
            .push(("content_block_stop", json!({ "type": "content_block_stop", "index": index })));
    }
    let delta =
        json!({ "type": "message_delta", "delta": { "stop_reason": stop }, "usage": usage });
    events.push(("message_delta", delta));
    events.push(("message_stop", json!({ "type": "message_stop" })));
    events
}

#[cfg(test)]
mod tests {
    use provost_core::{StopReason, Usage};

    use super::*;
    use crate::wire::anthropic::AnthropicMessages;
    use crate::wire::openai_chat::OpenAiChat;

    #[test]
    fn a_whole_answer_of_openai_is_read_like_a_stream() {
        let answer = json!({
            "id": "chatcmpl-1", "object": "chat.completion", "model": "gpt-x",
            "choices": [{ "index": 0, "finish_reason": "tool_calls", "message": {
                "role": "assistant", "content": "let me see",
                "tool_calls": [
                    { "id": "c1", "type": "function", "function": { "name": "look", "arguments": "{\"a\":1}" } },
                    { "id": "c2", "type": "function", "function": { "name": "look", "arguments": "{}" } },
                ] } }],
            "usage": { "prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12 },
        });
        let response = accumulate(&OpenAiChat::default(), &openai_events(answer)).unwrap();
        assert_eq!(
            (response.message.text().as_str(), response.stop),
            ("let me see", StopReason::ToolUse)
        );
        let calls: Vec<_> =
            response.message.tool_calls().map(|call| call.arguments.as_str()).collect();
        assert_eq!(calls, [r#"{"a":1}"#, "{}"]);
        assert_eq!((response.usage, response.usage_known), (Usage::new(5, 7), true));
    }

    #[test]
    fn a_whole_message_of_anthropic_is_read_like_a_stream() {
        let message = json!({
            "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x",
            "content": [
                { "type": "thinking", "thinking": "hm", "signature": "sig" },
                { "type": "text", "text": "hello" },
                { "type": "tool_use", "id": "t1", "name": "look", "input": { "at": 3 } },
            ],
            "stop_reason": "tool_use", "usage": { "input_tokens": 9, "output_tokens": 4 },
        });
        let response =
            accumulate(&AnthropicMessages::default(), &anthropic_events(message)).unwrap();
        assert_eq!(
            (response.message.text().as_str(), response.stop),
            ("hello", StopReason::ToolUse)
        );
        let calls: Vec<_> = response.message.tool_calls().collect();
        assert_eq!((calls[0].id.as_str(), calls[0].arguments.as_str()), ("t1", r#"{"at":3}"#));
        assert_eq!(response.usage, Usage::new(9, 4));
    }
}
