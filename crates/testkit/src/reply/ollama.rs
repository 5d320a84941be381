//! Format of Ollama.

use bytes::Bytes;
use provost_core::StopReason;

use super::{Ending, Failure, Reply, Step, json_string};

pub(super) fn frames(reply: &Reply) -> Vec<Bytes> {
    let head = format!(
        r#"{{"model":{},"created_at":"2026-01-01T00:00:00.000000Z","message":"#,
        json_string(&reply.model)
    );
    let line = |message: &str| Bytes::from(format!("{head}{message},\"done\":false}}\n"));
    let mut frames = Vec::new();
    for step in &reply.steps {
        match step {
            Step::Text(text) => frames.extend(reply.pieces(text).into_iter().map(|piece| {
                line(&format!(r#"{{"role":"assistant","content":{}}}"#, json_string(piece)))
            })),
            Step::Reasoning { text, .. } => {
                frames.extend(reply.pieces(text).into_iter().map(|piece| {
                    line(&format!(
                        r#"{{"role":"assistant","content":"","thinking":{}}}"#,
                        json_string(piece)
                    ))
                }));
            }
            Step::Redacted(_) => {}
            Step::Call { id, name, arguments } => {
                let arguments = match arguments.trim() {
                    "" => "{}",
                    arguments => arguments,
                };
                frames.push(line(&format!(
                    r#"{{"role":"assistant","content":"","tool_calls":[{{"id":{},"function":{{"name":{},"arguments":{arguments}}}}}]}}"#,
                    json_string(id),
                    json_string(name)
                )));
            }
            Step::Raw(bytes) => frames.push(bytes.clone()),
            Step::Failure(kind) => {
                frames.push(Bytes::from(format!("{}\n", failure(*kind).1)));
            }
        }
    }
    if reply.ending == Ending::Complete {
        let word = match reply.stop {
            Some(StopReason::MaxTokens) => "length",
            Some(StopReason::Unknown) => "mystery",
            _ => "stop",
        };
        let word = json_string(reply.stop_name.as_deref().unwrap_or(word));
        let usage = reply.usage.as_ref().map_or_else(String::new, |usage| {
            format!(
                r#","prompt_eval_count":{},"prompt_eval_duration":1,"eval_count":{},"eval_duration":1"#,
                usage.input, usage.output
            )
        });
        frames.push(Bytes::from(format!(
            "{head}{{\"role\":\"assistant\",\"content\":\"\"}},\"done\":true,\"done_reason\":{word},\"total_duration\":1,\"load_duration\":1{usage}}}\n"
        )));
    }
    frames
}

pub(super) fn failure(failure: Failure) -> (u16, String) {
    let (status, message) = match failure {
        Failure::Auth => (401, "unauthorized"),
        Failure::RateLimited => (429, "too many concurrent requests"),
        Failure::Quota => (402, "you have reached your usage limit, upgrade for more"),
        Failure::Overloaded => {
            (503, "server busy, please try again. maximum pending requests exceeded")
        }
        Failure::Server => (500, "model runner has unexpectedly stopped"),
        Failure::ContextLength => (400, "the input length exceeds the context length"),
        Failure::ContentFilter => (400, "blocked by the content management policy of the gateway"),
        Failure::UnknownModel => (404, "model 'fake' not found"),
        Failure::InvalidRequest => (400, "invalid options: x"),
        Failure::ToolSchema => (400, "invalid schema for function `f`"),
    };
    (status, format!(r#"{{"error":{}}}"#, json_string(message)))
}
