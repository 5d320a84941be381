//! Format of OpenAI Chat Completions.

use bytes::Bytes;
use provost_core::{StopReason, Usage};

use super::{Ending, Failure, Reply, Step, json_string};

pub(super) fn frames(reply: &Reply) -> Vec<Bytes> {
    let head = format!(
        r#"data: {{"id":{},"object":"chat.completion.chunk","created":1700000000,"model":{},"system_fingerprint":"fp_1","choices":["#,
        json_string(&reply.id),
        json_string(&reply.model)
    );
    let delta = |delta: &str| {
        Bytes::from(format!(
            "{head}{{\"index\":0,\"delta\":{delta},\"logprobs\":null,\"finish_reason\":null}}],\"usage\":null}}\n\n"
        ))
    };
    let mut frames = vec![delta(r#"{"role":"assistant","content":"","refusal":null}"#)];
    let text_field = match reply.stop {
        Some(StopReason::Refusal) => "refusal",
        _ => "content",
    };
    let mut calls = 0;
    for step in &reply.steps {
        match step {
            Step::Text(text) => frames.extend(
                reply
                    .pieces(text)
                    .into_iter()
                    .map(|piece| delta(&format!("{{\"{text_field}\":{}}}", json_string(piece)))),
            ),
            Step::Reasoning { text, .. } => {
                frames.extend(reply.pieces(text).into_iter().map(|piece| {
                    delta(&format!("{{\"reasoning_content\":{}}}", json_string(piece)))
                }))
            }
            Step::Redacted(_) => {}
            Step::Call { id, name, arguments } => {
                frames.push(delta(&format!(
                    r#"{{"tool_calls":[{{"index":{calls},"id":{},"type":"function","function":{{"name":{},"arguments":""}}}}]}}"#,
                    json_string(id),
                    json_string(name)
                )));
                frames.extend(reply.pieces(arguments).into_iter().map(|piece| {
                    delta(&format!(
                        r#"{{"tool_calls":[{{"index":{calls},"function":{{"arguments":{}}}}}]}}"#,
                        json_string(piece)
                    ))
                }));
                calls += 1;
            }
            Step::Raw(bytes) => frames.push(bytes.clone()),
            Step::Failure(kind) => {
                frames.push(Bytes::from(format!("data: {}\n\n", failure(*kind).1)))
            }
        }
    }
    if reply.ending == Ending::Complete {
        frames.extend(finish(reply, &head));
    }
    frames
}

fn finish(reply: &Reply, head: &str) -> Vec<Bytes> {
    let natural = if reply.has_calls() { StopReason::ToolUse } else { StopReason::EndTurn };
    let stop = reply.stop.unwrap_or(natural);
    let word = match stop {
        StopReason::MaxTokens => "length",
        StopReason::ToolUse => "tool_calls",
        StopReason::ContentFilter => "content_filter",
        StopReason::Unknown => "mystery",
        _ => "stop",
    };
    let word = json_string(reply.stop_name.as_deref().unwrap_or(word));
    let stop_sequence =
        if stop == StopReason::StopSequence { r#","stop_reason":"END""# } else { "" };
    let finish = format!(
        "{head}{{\"index\":0,\"delta\":{{}},\"logprobs\":null,\"finish_reason\":{word}{stop_sequence}}}],\"usage\":null}}\n\n"
    );
    let mut frames = vec![Bytes::from(finish)];
    if let Some(usage) = &reply.usage {
        frames.push(Bytes::from(format!("{head}],\"usage\":{}}}\n\n", usage_json(usage))));
    }
    frames.push(Bytes::from_static(b"data: [DONE]\n\n"));
    frames
}

fn usage_json(usage: &Usage) -> String {
    format!(
        r#"{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{},"prompt_tokens_details":{{"cached_tokens":{},"audio_tokens":0}},"completion_tokens_details":{{"reasoning_tokens":{},"audio_tokens":0}}}}"#,
        usage.input,
        usage.output,
        usage.total(),
        usage.cache_read,
        usage.reasoning
    )
}

pub(super) fn failure(failure: Failure) -> (u16, String) {
    let (status, kind, code, message) = failure_parts(failure);
    let code = if code.is_empty() { "null".to_owned() } else { json_string(code) };
    let body = format!(
        r#"{{"error":{{"message":{},"type":{},"param":null,"code":{code}}}}}"#,
        json_string(message),
        json_string(kind)
    );
    (status, body)
}

/// Returns the status, code and message of a failure.
pub(super) fn failure_texts(failure: Failure) -> (u16, &'static str, &'static str) {
    let (status, _, code, message) = failure_parts(failure);
    (status, code, message)
}

fn failure_parts(failure: Failure) -> (u16, &'static str, &'static str, &'static str) {
    match failure {
        Failure::Auth => {
            (401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided.")
        }
        Failure::RateLimited => {
            (429, "requests", "rate_limit_exceeded", "Rate limit reached for requests.")
        }
        Failure::Quota => {
            (429, "insufficient_quota", "insufficient_quota", "You exceeded your current quota.")
        }
        Failure::Overloaded => {
            (503, "service_unavailable_error", "", "The engine is currently overloaded.")
        }
        Failure::Server => (500, "server_error", "", "The server had an error."),
        Failure::ContextLength => (
            400,
            "invalid_request_error",
            "context_length_exceeded",
            "This model's maximum context length is 8192 tokens.",
        ),
        Failure::ContentFilter => {
            (400, "invalid_request_error", "content_filter", "The response was filtered.")
        }
        Failure::UnknownModel => {
            (404, "invalid_request_error", "model_not_found", "The model `fake` does not exist.")
        }
        Failure::InvalidRequest => {
            (400, "invalid_request_error", "invalid_value", "Invalid value: 'x'.")
        }
        Failure::ToolSchema => (
            400,
            "invalid_request_error",
            "invalid_function_parameters",
            "Invalid schema for function 'f': 'x' is not valid under any of the given schemas.",
        ),
    }
}
