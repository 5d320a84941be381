use std::sync::Arc;

use provost_core::{Message, StopReason, ToolCall, ToolResult, Usage};
use provost_model::{ModelErrorClass, OutputSchema, ReasoningEffort};
use serde_json::json;

use super::*;
use crate::wire::testing::{decode, decode_response, encode, info, test_request};

fn older() -> GeminiContent {
    GeminiContent::for_model("models/gemini-2.5-flash")
}

#[test]
fn effort_is_a_word_or_a_budget() {
    let mut request = test_request();
    request.settings.effort = Some(ReasoningEffort::Medium);
    let config = |wire: &GeminiContent, request: &provost_model::ChatRequest| {
        encode(wire, request, &info())["generationConfig"]["thinkingConfig"].clone()
    };
    let wire = GeminiContent::for_model("gemini-3-pro");
    assert_eq!(
        config(&wire, &request),
        json!({"includeThoughts": true, "thinkingLevel": "medium"})
    );
    assert_eq!(
        config(&older(), &request),
        json!({"includeThoughts": true, "thinkingBudget": 8192})
    );
    let plain = provost_model::ModelInfo { reasoning: false, ..info() };
    assert!(encode(&wire, &request, &plain)["generationConfig"].get("thinkingConfig").is_none());
}

#[test]
fn a_schema_is_sent_as_it_is() {
    let mut request = test_request();
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}});
    request.output = Some(Arc::new(OutputSchema {
        name: "x".to_owned(),
        description: None,
        schema: schema.clone(),
    }));
    let config = encode(&older(), &request, &info())["generationConfig"].clone();
    assert_eq!(config["responseMimeType"], "application/json");
    assert_eq!(config["responseJsonSchema"], schema);
}

#[test]
fn roles_alternate_and_the_user_speaks_first() {
    let mut request = provost_model::ChatRequest::new([
        Message::assistant("hello"),
        Message::user("a"),
        Message::user("b"),
        Message::assistant("c"),
    ]);
    request.system = Some("sys".into());
    let body = encode(&older(), &request, &info());
    let roles: Vec<&str> =
        body["contents"].as_array().unwrap().iter().map(|c| c["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["user", "model", "user", "model"]);
    assert_eq!(body["contents"][2]["parts"], json!([{"text": "a"}, {"text": "b"}]));
}

#[test]
fn only_newer_models_want_a_mark_on_calls_that_nobody_signed() {
    let call = ToolCall::new("c", "f", &json!({}));
    let request = provost_model::ChatRequest::new([
        Message::user("a"),
        Message::calls([call.clone(), call.clone()]),
        Message::results([ToolResult::text(&call, "x")]),
    ]);
    let body = encode(&older(), &request, &info());
    assert!(!body.to_string().contains("thoughtSignature"), "{body}");
    let body = encode(&GeminiContent::default(), &request, &info());
    assert_eq!(body.to_string().matches("thoughtSignature").count(), 1, "the first of a turn");
}

#[test]
fn thoughts_are_counted_as_output_and_signatures_of_text_come_back() {
    let wire = GeminiContent::default();
    let whole = decode_response(
        &wire,
        &[
            r#"{"candidates":[{"content":{"parts":[{"text":"hm","thought":true}]}}],"responseId":"r","modelVersion":"m"}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"hi"}]}}]}"#,
            r#"{"candidates":[{"content":{"parts":[{"text":"","thoughtSignature":"s=="}]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"toolUsePromptTokenCount":2,"candidatesTokenCount":3,"thoughtsTokenCount":4,"cachedContentTokenCount":5}}"#,
        ],
    )
    .unwrap();
    let usage = Usage { input: 12, output: 7, cache_read: 5, reasoning: 4, ..Usage::default() };
    assert_eq!((whole.usage, whole.stop), (usage, StopReason::EndTurn));
    let mut request = test_request();
    request.messages.push(Arc::new(whole.message));
    let body = encode(&wire, &request, &info());
    assert_eq!(
        body["contents"][1]["parts"],
        json!([{"text": "hi"}, {"text": "", "thoughtSignature": "s=="}])
    );
}

#[test]
fn a_prompt_that_is_blocked_is_an_error_and_no_empty_answer() {
    let wire = GeminiContent::default();
    let blocked = r#"{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":4}}"#;
    let (_, result) = decode(&wire, &[blocked]);
    let error = result.unwrap_err();
    assert_eq!(error.class, ModelErrorClass::ContentFilter);
    assert!(error.message.contains("PROHIBITED_CONTENT"), "{error}");
    let (_, result) =
        decode(&wire, &[r#"{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}"#]);
    assert_eq!(result.unwrap_err().class, ModelErrorClass::Overloaded);
    let odd =
        decode_response(&wire, &[r#"{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}"#]);
    let odd = odd.unwrap();
    assert_eq!(odd.stop, StopReason::Unknown);
    assert_eq!(odd.metadata["gemini.finish_reason"], "MALFORMED_FUNCTION_CALL");
}

#[test]
fn identical_parallel_calls_stay_two() {
    let call = r#"{"functionCall":{"name":"f","args":{"a":1}}}"#;
    let chunk = format!(
        r#"{{"candidates":[{{"content":{{"parts":[{call},{call}]}},"finishReason":"STOP"}}]}}"#
    );
    let whole = decode_response(&GeminiContent::default(), &[&chunk]).unwrap();
    assert_eq!(whole.message.tool_calls().count(), 2);
    assert_eq!(whole.stop, StopReason::ToolUse);
}
