//! Format of Anthropic Messages.

use bytes::Bytes;
use provost_core::{StopReason, Usage};

use super::{Ending, Failure, Reply, Step, json_string};

pub(super) fn frames(reply: &Reply) -> Vec<Bytes> {
    let usage = reply.usage.unwrap_or_default();
    let mut writer = Writer { frames: Vec::new(), index: 0, open_text: false };
    writer.event(
        "message_start",
        &format!(
            r#""message":{{"id":{},"type":"message","role":"assistant","model":{},"content":[],"stop_reason":null,"stop_sequence":null,"usage":{}}}"#,
            json_string(&reply.id),
            json_string(&reply.model),
            usage_json(&usage, 1)
        ),
    );
    writer.frames.push(Bytes::from_static(b"event: ping\ndata: {\"type\": \"ping\"}\n\n"));
    for step in &reply.steps {
        writer.step(reply, step);
    }
    if reply.ending == Ending::Complete {
        writer.close_text();
        finish(reply, &usage, &mut writer);
    }
    writer.frames
}

/// Frames of a stream so far, with the open content block.
struct Writer {
    frames: Vec<Bytes>,
    index: u32,
    /// True if a text block is open. Consecutive texts share it.
    open_text: bool,
}

impl Writer {
    fn event(&mut self, name: &str, fields: &str) {
        let separator = if fields.is_empty() { "" } else { "," };
        self.frames.push(Bytes::from(format!(
            "event: {name}\ndata: {{\"type\":\"{name}\"{separator}{fields}}}\n\n"
        )));
    }

    fn start(&mut self, block: &str) {
        self.event(
            "content_block_start",
            &format!(r#""index":{},"content_block":{block}"#, self.index),
        );
    }

    fn delta(&mut self, delta: &str) {
        self.event("content_block_delta", &format!(r#""index":{},"delta":{delta}"#, self.index));
    }

    fn stop(&mut self) {
        self.event("content_block_stop", &format!(r#""index":{}"#, self.index));
        self.index += 1;
    }

    /// Ends the open text block, if there is one.
    fn close_text(&mut self) {
        if std::mem::take(&mut self.open_text) {
            self.stop();
        }
    }

    fn step(&mut self, reply: &Reply, step: &Step) {
        if !matches!(step, Step::Text(_) | Step::Raw(_)) {
            self.close_text();
        }
        match step {
            Step::Text(text) => {
                if !std::mem::replace(&mut self.open_text, true) {
                    self.start(r#"{"type":"text","text":""}"#);
                }
                for piece in reply.pieces(text) {
                    self.delta(&format!(
                        r#"{{"type":"text_delta","text":{}}}"#,
                        json_string(piece)
                    ));
                }
            }
            Step::Reasoning { text, signature } => {
                self.start(r#"{"type":"thinking","thinking":"","signature":""}"#);
                for piece in reply.pieces(text) {
                    self.delta(&format!(
                        r#"{{"type":"thinking_delta","thinking":{}}}"#,
                        json_string(piece)
                    ));
                }
                self.delta(&format!(
                    r#"{{"type":"signature_delta","signature":{}}}"#,
                    json_string(signature)
                ));
                self.stop();
            }
            Step::Redacted(data) => {
                self.start(&format!(
                    r#"{{"type":"redacted_thinking","data":{}}}"#,
                    json_string(data)
                ));
                self.stop();
            }
            Step::Call { id, name, arguments } => {
                self.start(&format!(
                    r#"{{"type":"tool_use","id":{},"name":{},"input":{{}}}}"#,
                    json_string(id),
                    json_string(name)
                ));
                self.delta(r#"{"type":"input_json_delta","partial_json":""}"#);
                for piece in reply.pieces(arguments) {
                    self.delta(&format!(
                        r#"{{"type":"input_json_delta","partial_json":{}}}"#,
                        json_string(piece)
                    ));
                }
                self.stop();
            }
            Step::Raw(bytes) => self.frames.push(bytes.clone()),
            Step::Failure(kind) => {
                let body = failure(*kind).1;
                self.frames.push(Bytes::from(format!("event: error\ndata: {body}\n\n")));
            }
        }
    }
}

fn finish(reply: &Reply, usage: &Usage, writer: &mut Writer) {
    let natural = if reply.has_calls() { StopReason::ToolUse } else { StopReason::EndTurn };
    let stop = reply.stop.unwrap_or(natural);
    let word = match stop {
        StopReason::EndTurn => "end_turn",
        StopReason::MaxTokens => "max_tokens",
        StopReason::ToolUse => "tool_use",
        StopReason::StopSequence => "stop_sequence",
        StopReason::Refusal | StopReason::ContentFilter => "refusal",
        _ => "mystery",
    };
    let word = json_string(reply.stop_name.as_deref().unwrap_or(word));
    let stop_sequence = if stop == StopReason::StopSequence { r#""END""# } else { "null" };
    writer.event(
        "message_delta",
        &format!(
            r#""delta":{{"stop_reason":{word},"stop_sequence":{stop_sequence}}},"usage":{{"output_tokens":{}}}"#,
            usage.output
        ),
    );
    writer.event("message_stop", "");
}

/// Returns the vendor counts cached tokens separately.
fn usage_json(usage: &Usage, output: u64) -> String {
    format!(
        r#"{{"input_tokens":{},"cache_creation_input_tokens":{},"cache_read_input_tokens":{},"output_tokens":{output}}}"#,
        usage.input.saturating_sub(usage.cache_read).saturating_sub(usage.cache_write),
        usage.cache_write,
        usage.cache_read
    )
}

pub(super) fn failure(failure: Failure) -> (u16, String) {
    let (status, kind, message) = match failure {
        Failure::Auth => (401, "authentication_error", "invalid x-api-key"),
        Failure::RateLimited => {
            (429, "rate_limit_error", "This request would exceed your rate limit.")
        }
        Failure::Quota => (402, "billing_error", "Your credit balance is too low."),
        Failure::Overloaded => (529, "overloaded_error", "Overloaded"),
        Failure::Server => (500, "api_error", "Internal server error"),
        Failure::ContextLength => {
            (400, "invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")
        }
        Failure::ContentFilter => {
            (400, "invalid_request_error", "Output blocked by content filtering policy")
        }
        Failure::UnknownModel => (404, "not_found_error", "model: fake"),
        Failure::ToolSchema => {
            (400, "invalid_request_error", "tools.0.custom.input_schema.type: Field required")
        }
        Failure::InvalidRequest => (400, "invalid_request_error", "max_tokens: Field required"),
    };
    let body = format!(
        r#"{{"type":"error","error":{{"type":{},"message":{}}},"request_id":"req_1"}}"#,
        json_string(kind),
        json_string(message)
    );
    (status, body)
}
