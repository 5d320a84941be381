//! Format of Gemini.

use bytes::Bytes;
use provost_core::{StopReason, Usage};

use super::{Ending, Failure, Reply, Step, json_string};

pub(super) fn frames(reply: &Reply) -> Vec<Bytes> {
    let mut frames = Vec::new();
    // A signature belongs to the call after the reasoning, or to an empty part at the end.
    let mut signature: Option<&str> = None;
    for step in &reply.steps {
        match step {
            Step::Text(text) => {
                for piece in reply.pieces(text) {
                    frames.push(part(reply, &format!(r#"{{"text":{}}}"#, json_string(piece))));
                }
            }
            Step::Reasoning { text, signature: signed } => {
                signature = Some(signed);
                for piece in reply.pieces(text) {
                    let thought = format!(r#"{{"text":{},"thought":true}}"#, json_string(piece));
                    frames.push(part(reply, &thought));
                }
            }
            Step::Redacted(_) => {}
            Step::Call { id, name, arguments } => {
                // The vendor sends objects, so empty arguments become an empty object.
                let args = match arguments.trim() {
                    "" => "{}",
                    arguments => arguments,
                };
                let signed = match signature.take() {
                    Some(signed) => format!(r#","thoughtSignature":{}"#, json_string(signed)),
                    None => String::new(),
                };
                let call = format!(
                    r#"{{"functionCall":{{"id":{},"name":{},"args":{args}}}{signed}}}"#,
                    json_string(id),
                    json_string(name)
                );
                frames.push(part(reply, &call));
            }
            Step::Raw(bytes) => frames.push(bytes.clone()),
            Step::Failure(kind) => {
                frames.push(Bytes::from(format!("data: {}\r\n\r\n", failure(*kind).1)));
            }
        }
    }
    if reply.ending == Ending::Complete {
        let rest = match signature {
            Some(signed) => format!(r#"{{"text":"","thoughtSignature":{}}}"#, json_string(signed)),
            None => r#"{"text":""}"#.to_owned(),
        };
        frames.push(finish(reply, &rest));
    }
    frames
}

fn chunk(reply: &Reply, candidate: &str, usage: &str) -> Bytes {
    Bytes::from(format!(
        "data: {{\"candidates\":[{{{candidate},\"index\":0}}],{usage}\"modelVersion\":{},\"responseId\":{}}}\r\n\r\n",
        json_string(&reply.model),
        json_string(&reply.id)
    ))
}

fn part(reply: &Reply, part: &str) -> Bytes {
    let candidate = format!(r#""content":{{"parts":[{part}],"role":"model"}}"#);
    // The vendor sends its counts so far with each frame.
    let usage = reply.usage.as_ref().map_or_else(String::new, |usage| {
        let usage = Usage { output: 0, reasoning: 0, ..*usage };
        format!(r#""usageMetadata":{},"#, usage_json(&usage))
    });
    chunk(reply, &candidate, &usage)
}

fn finish(reply: &Reply, part: &str) -> Bytes {
    let word = match reply.stop {
        None | Some(StopReason::EndTurn | StopReason::ToolUse | StopReason::StopSequence) => "STOP",
        Some(StopReason::MaxTokens) => "MAX_TOKENS",
        Some(StopReason::ContentFilter) => "SAFETY",
        Some(StopReason::Refusal) => "PROHIBITED_CONTENT",
        Some(_) => "MYSTERY",
    };
    let word = reply.stop_name.as_deref().unwrap_or(word);
    let candidate = format!(
        r#""content":{{"parts":[{part}],"role":"model"}},"finishReason":{}"#,
        json_string(word)
    );
    let usage = reply
        .usage
        .as_ref()
        .map_or_else(String::new, |usage| format!(r#""usageMetadata":{},"#, usage_json(usage)));
    chunk(reply, &candidate, &usage)
}

/// Returns the vendor counts reasoning tokens separately.
fn usage_json(usage: &Usage) -> String {
    format!(
        r#"{{"promptTokenCount":{},"candidatesTokenCount":{},"totalTokenCount":{},"cachedContentTokenCount":{},"thoughtsTokenCount":{}}}"#,
        usage.input,
        usage.output.saturating_sub(usage.reasoning),
        usage.total(),
        usage.cache_read,
        usage.reasoning
    )
}

pub(super) fn failure(failure: Failure) -> (u16, String) {
    let (status, word, message) = match failure {
        Failure::Auth => {
            (400, "INVALID_ARGUMENT", "API key not valid. Please pass a valid API key.")
        }
        Failure::RateLimited => (
            429,
            "RESOURCE_EXHAUSTED",
            "You exceeded your current quota, please check your plan and billing details. Please retry in 34s.",
        ),
        Failure::Quota => (429, "RESOURCE_EXHAUSTED", "Your prepayment credits are depleted."),
        Failure::Overloaded => (503, "UNAVAILABLE", "The model is overloaded."),
        Failure::Server => (500, "INTERNAL", "An internal error has occurred."),
        Failure::ContextLength => (
            400,
            "INVALID_ARGUMENT",
            "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        ),
        Failure::ContentFilter => {
            (400, "INVALID_ARGUMENT", "The request was refused by the content management policy.")
        }
        Failure::UnknownModel => {
            (404, "NOT_FOUND", "models/fake is not found for API version v1beta.")
        }
        Failure::InvalidRequest => (400, "INVALID_ARGUMENT", "Invalid value at 'contents'."),
        Failure::ToolSchema => (
            400,
            "INVALID_ARGUMENT",
            "* GenerateContentRequest.tools[0].function_declarations[0].parameters: unknown type",
        ),
    };
    let body = format!(
        r#"{{"error":{{"code":{status},"message":{},"status":"{word}"}}}}"#,
        json_string(message)
    );
    (status, body)
}
