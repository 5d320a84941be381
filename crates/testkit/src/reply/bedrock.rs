//! Format of Bedrock Converse, with its binary frames.

use bytes::Bytes;
use provost_core::StopReason;

use super::{Ending, Failure, Reply, Step, json_string};

/// Returns a frame: lengths, headers, payload and checksums.
pub(super) fn frame(kind: &str, name: &str, payload: &[u8]) -> Bytes {
    let mut headers = Vec::new();
    for (header, value) in [
        (format!(":{kind}-type"), name),
        (":content-type".to_owned(), "application/json"),
        (":message-type".to_owned(), kind),
    ] {
        headers.extend(u8::try_from(header.len()));
        headers.extend_from_slice(header.as_bytes());
        headers.push(7);
        headers.extend(u16::try_from(value.len()).unwrap_or(0).to_be_bytes());
        headers.extend_from_slice(value.as_bytes());
    }
    let total = 16 + headers.len() + payload.len();
    let mut frame = Vec::with_capacity(total);
    frame.extend(u32::try_from(total).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend(u32::try_from(headers.len()).unwrap_or(u32::MAX).to_be_bytes());
    frame.extend(checksum(&frame).to_be_bytes());
    frame.extend(headers);
    frame.extend_from_slice(payload);
    frame.extend(checksum(&frame).to_be_bytes());
    Bytes::from(frame)
}

/// CRC-32, bit by bit. Implemented independently of the tested code.
fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for byte in bytes {
        crc ^= u32::from(*byte);
        for _ in 0..8 {
            crc = if crc & 1 == 1 { (crc >> 1) ^ 0xEDB8_8320 } else { crc >> 1 };
        }
    }
    !crc
}

fn event(name: &str, payload: &str) -> Bytes {
    // The vendor pads its payloads.
    let payload = format!(r#"{},"p":"abcdef"}}"#, payload.strip_suffix('}').unwrap_or(payload));
    frame("event", name, payload.as_bytes())
}

/// Frames of a stream so far, with the open content block.
struct Writer<'a> {
    reply: &'a Reply,
    frames: Vec<Bytes>,
    index: u32,
    open_text: bool,
}

impl Writer<'_> {
    fn delta(&mut self, delta: &str) {
        let payload = format!(r#"{{"contentBlockIndex":{},"delta":{delta}}}"#, self.index);
        self.frames.push(event("contentBlockDelta", &payload));
    }

    fn stop(&mut self) {
        let payload = format!(r#"{{"contentBlockIndex":{}}}"#, self.index);
        self.frames.push(event("contentBlockStop", &payload));
        self.index += 1;
    }

    /// Ends the open text block, if there is one.
    fn close_text(&mut self) {
        if std::mem::take(&mut self.open_text) {
            self.stop();
        }
    }

    fn step(&mut self, step: &Step) {
        if !matches!(step, Step::Text(_) | Step::Raw(_)) {
            self.close_text();
        }
        match step {
            Step::Text(text) => {
                self.open_text = true;
                for piece in self.reply.pieces(text) {
                    self.delta(&format!(r#"{{"text":{}}}"#, json_string(piece)));
                }
            }
            Step::Reasoning { text, signature } => {
                for piece in self.reply.pieces(text) {
                    self.delta(&format!(
                        r#"{{"reasoningContent":{{"text":{}}}}}"#,
                        json_string(piece)
                    ));
                }
                self.delta(&format!(
                    r#"{{"reasoningContent":{{"signature":{}}}}}"#,
                    json_string(signature)
                ));
                self.stop();
            }
            Step::Redacted(data) => {
                self.delta(&format!(
                    r#"{{"reasoningContent":{{"redactedContent":{}}}}}"#,
                    json_string(data)
                ));
                self.stop();
            }
            Step::Call { id, name, arguments } => {
                let payload = format!(
                    r#"{{"contentBlockIndex":{},"start":{{"toolUse":{{"toolUseId":{},"name":{}}}}}}}"#,
                    self.index,
                    json_string(id),
                    json_string(name)
                );
                self.frames.push(event("contentBlockStart", &payload));
                for piece in self.reply.pieces(arguments) {
                    self.delta(&format!(r#"{{"toolUse":{{"input":{}}}}}"#, json_string(piece)));
                }
                self.stop();
            }
            Step::Raw(bytes) => self.frames.push(bytes.clone()),
            Step::Failure(kind) => {
                let (_, name, message) = failure_texts(*kind);
                let payload = format!(r#"{{"message":{}}}"#, json_string(message));
                self.frames.push(frame("exception", name, payload.as_bytes()));
            }
        }
    }
}

pub(super) fn frames(reply: &Reply) -> Vec<Bytes> {
    let start = event("messageStart", r#"{"role":"assistant"}"#);
    let mut writer = Writer { reply, frames: vec![start], index: 0, open_text: false };
    for step in &reply.steps {
        writer.step(step);
    }
    if reply.ending != Ending::Complete {
        return writer.frames;
    }
    writer.close_text();
    let natural = if reply.has_calls() { StopReason::ToolUse } else { StopReason::EndTurn };
    let word = match reply.stop.unwrap_or(natural) {
        StopReason::EndTurn => "end_turn",
        StopReason::MaxTokens => "max_tokens",
        StopReason::ToolUse => "tool_use",
        StopReason::StopSequence => "stop_sequence",
        StopReason::ContentFilter => "content_filtered",
        StopReason::Refusal => "refusal",
        _ => "mystery",
    };
    let word = json_string(reply.stop_name.as_deref().unwrap_or(word));
    writer.frames.push(event("messageStop", &format!(r#"{{"stopReason":{word}}}"#)));
    if let Some(usage) = &reply.usage {
        // The vendor counts cached tokens separately.
        let plain = usage.input.saturating_sub(usage.cache_read).saturating_sub(usage.cache_write);
        writer.frames.push(event(
            "metadata",
            &format!(
                r#"{{"usage":{{"inputTokens":{plain},"outputTokens":{},"totalTokens":{},"cacheReadInputTokens":{},"cacheWriteInputTokens":{}}},"metrics":{{"latencyMs":1}}}}"#,
                usage.output,
                usage.total(),
                usage.cache_read,
                usage.cache_write
            ),
        ));
    }
    writer.frames
}

fn failure_texts(failure: Failure) -> (u16, &'static str, &'static str) {
    match failure {
        Failure::Auth => (
            403,
            "unrecognizedClientException",
            "The security token included in the request is invalid.",
        ),
        Failure::RateLimited => {
            (429, "throttlingException", "Too many requests, please wait before trying again.")
        }
        Failure::Quota => (
            400,
            "serviceQuotaExceededException",
            "Your request exceeds the service quota for your account.",
        ),
        Failure::Overloaded => {
            (503, "serviceUnavailableException", "Bedrock is unable to process your request.")
        }
        Failure::Server => (500, "internalServerException", "An internal server error occurred."),
        Failure::ContextLength => {
            (400, "validationException", "Input is too long for requested model.")
        }
        Failure::ContentFilter => {
            (400, "validationException", "Output blocked by content filtering policy")
        }
        Failure::UnknownModel => {
            (400, "validationException", "The provided model identifier is invalid.")
        }
        Failure::InvalidRequest => {
            (400, "validationException", "Malformed input request: #/messages: required.")
        }
        Failure::ToolSchema => (
            400,
            "validationException",
            "The value at toolConfig.tools.0.toolSpec.inputSchema.json.type must be one of the following: object.",
        ),
    }
}

pub(super) fn failure(failure: Failure) -> (u16, String) {
    let (status, name, message) = failure_texts(failure);
    (status, format!(r#"{{"__type":{},"message":{}}}"#, json_string(name), json_string(message)))
}
