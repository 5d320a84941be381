//! The messages say what the envelopes say, and what the published file says.

use std::collections::BTreeMap;

use prost::Message as _;
use provost_core::contract::ToolErrorCode;

use super::*;

fn request() -> ToolRequest {
    ToolRequest {
        tool_contract_version: "v1".to_owned(),
        request_id: "r".to_owned(),
        task_id: "t".to_owned(),
        namespace: "n".to_owned(),
        agent: "a".to_owned(),
        tool: RequestTool {
            name: "tool".to_owned(),
            operation: "invoke".to_owned(),
            capabilities: vec!["x".to_owned()],
            risk_level: "low".to_owned(),
        },
        input: BTreeMap::from([("k".to_owned(), "v".to_owned())]),
        input_raw: "{}".to_owned(),
        runtime: RequestRuntime {
            mode: "grpc".to_owned(),
            timeout_ms: 1,
            max_attempts: 2,
            backoff: "1s".to_owned(),
            max_backoff_ms: 3,
            jitter: true,
        },
        auth: RequestAuth {
            profile: "bearer".to_owned(),
            secret_ref: "s".to_owned(),
            scopes: vec!["y".to_owned()],
        },
        trace: TraceIds { trace_id: "ti".to_owned(), span_id: "si".to_owned() },
        attempt: 4,
    }
}

#[test]
fn nothing_is_lost_on_the_way() {
    let message = ExecuteRequest::from(request());
    let read = ExecuteRequest::decode(message.encode_to_vec().as_slice()).unwrap();
    assert_eq!(ToolRequest::from(read), request());
    let fault = ToolContractError::new(ToolErrorCode::Timeout, "late").detail("a", "b");
    for came in [Ok("done".to_owned()), Err(fault)] {
        let response = ToolResponse::of(&request(), came, 7);
        let message = ExecuteResponse::from(response.clone());
        let read = ExecuteResponse::decode(message.encode_to_vec().as_slice()).unwrap();
        assert_eq!(ToolResponse::try_from(read).unwrap(), response);
    }
    assert!(ToolResponse::try_from(ExecuteResponse::default()).is_err(), "no status is no answer");
}

/// Returns the fields of the messages in the published file: name, number and type.
fn published() -> Vec<String> {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/tool-service-v1.proto");
    let text = std::fs::read_to_string(file).unwrap();
    let mut fields = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(name) = line.strip_prefix("message ") {
            fields.push(format!("message {}", name.trim_end_matches(" {")));
        } else if let Some((left, number)) = line.trim_end_matches(';').split_once(" = ")
            && !left.starts_with("syntax")
            && !left.starts_with("//")
        {
            fields.push(format!("{left} = {number}"));
        }
    }
    fields
}

/// The same as this file's source has them.
fn written() -> Vec<String> {
    let source = include_str!("../message.rs");
    let mut fields = Vec::new();
    let mut annotation = String::new();
    for line in source.lines().map(str::trim) {
        if let Some(text) = line.strip_prefix("#[prost(").and_then(|text| text.strip_suffix(")]")) {
            annotation = text.to_owned();
        } else if let Some(name) = line.strip_prefix("pub struct ") {
            fields.push(format!("message {}", name.trim_end_matches(" {")));
        } else if let Some((name, kind)) =
            line.strip_prefix("pub ").and_then(|text| text.split_once(": "))
            && !annotation.is_empty()
        {
            let number = annotation.rsplit('"').nth(1).unwrap();
            let word = annotation.split(',').next().unwrap();
            let kind = match word {
                "message" => kind.trim_start_matches("Option<").trim_end_matches(">,").to_owned(),
                _ if annotation.starts_with("map") => "map<string, string>".to_owned(),
                word if annotation.contains("repeated") => format!("repeated {word}"),
                word => word.to_owned(),
            };
            fields.push(format!("{kind} {name} = {number}"));
            annotation.clear();
        }
    }
    fields
}

#[test]
fn the_messages_are_the_published_ones() {
    assert_eq!(written(), published());
}
