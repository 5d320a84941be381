use provost_core::{Message, StopReason, ToolCall, ToolResult, Usage};
use provost_model::{
    ModelErrorClass, ModelResponse, ReasoningEffort, ResponseAccumulator, ToolChoice,
};
use serde_json::{Value, json};

use super::*;
use crate::wire::SseEvent;
use crate::wire::testing::{encode, info, test_request};

fn named(model: &str) -> ModelInfo {
    ModelInfo { model: model.to_owned(), ..info() }
}

fn fields(model: &str, effort: ReasoningEffort) -> Value {
    let mut request = test_request();
    request.settings.effort = Some(effort);
    request.settings.max_tokens = Some(10_000);
    encode(&BedrockConverse::default(), &request, &named(model))["additionalModelRequestFields"]
        .clone()
}

#[test]
fn effort_is_said_in_the_words_of_the_family() {
    assert_eq!(
        fields("us.anthropic.claude-sonnet-4-5-v1:0", ReasoningEffort::Medium),
        json!({"thinking": {"type": "enabled", "budget_tokens": 5000}})
    );
    assert_eq!(
        fields("openai.gpt-oss-120b-1:0", ReasoningEffort::Minimal),
        json!({"reasoning_effort": "low"})
    );
    assert_eq!(
        fields("us.amazon.nova-2-lite-v1:0", ReasoningEffort::High),
        json!({"reasoningConfig": {"type": "enabled", "maxReasoningEffort": "high"}})
    );
    assert_eq!(fields("meta.llama4-v1:0", ReasoningEffort::High), Value::Null);
}

#[test]
fn only_families_with_a_cache_get_marks() {
    let mut request = test_request();
    request.system = Some("sys".into());
    let body = |model: &str, on: bool| {
        let wire = BedrockConverse { prompt_cache: on, ..BedrockConverse::default() };
        encode(&wire, &request, &named(model)).to_string()
    };
    assert_eq!(body("anthropic.claude", true).matches("cachePoint").count(), 2);
    assert_eq!(body("amazon.nova-pro-v1:0", true).matches("cachePoint").count(), 2);
    assert!(!body("anthropic.claude", false).contains("cachePoint"));
    assert!(!body("mistral.large", true).contains("cachePoint"));
}

#[test]
fn tools_that_were_used_stay_defined() {
    let call = ToolCall::new("c", "f", &json!({}));
    let mut request = provost_model::ChatRequest::new([
        Message::assistant("first"),
        Message::calls([call.clone()]),
        Message::results([ToolResult::text(&call, " ")]),
    ]);
    request.tool_choice = ToolChoice::None;
    let body = encode(&BedrockConverse::default(), &request, &named("x"));
    assert_eq!(body["toolConfig"]["tools"][0]["toolSpec"]["name"], "f");
    assert_eq!(body["messages"][0]["role"], "user", "the user speaks first");
    assert_eq!(
        body["messages"][2]["content"][0]["toolResult"]["content"],
        json!([{"text": "(no output)"}])
    );
}

fn decode_response(frames: &[(&str, &str)]) -> Result<ModelResponse, ModelError> {
    let mut decoder = BedrockConverse::default().decoder();
    let (mut events, mut fold) = (Vec::new(), ResponseAccumulator::default());
    for (name, data) in frames {
        let event = SseEvent { event: name.as_bytes(), data: data.as_bytes() };
        decoder.push(&event, &mut events)?;
    }
    decoder.finish(&mut events)?;
    for event in &events {
        fold.push(event)?;
    }
    fold.finish()
}

#[test]
fn frames_become_an_answer() {
    let whole = decode_response(&[
        ("messageStart", r#"{"role":"assistant","p":"ab"}"#),
        ("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"hm"}}}"#),
        ("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"s1"}}}"#),
        ("contentBlockDelta", r#"{"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"s2"}}}"#),
        ("contentBlockStop", r#"{"contentBlockIndex":0}"#),
        ("contentBlockStart", r#"{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"t","name":"f"}}}"#),
        ("contentBlockDelta", r#"{"contentBlockIndex":1,"delta":{"toolUse":{"input":"{\"a\""}}}"#),
        ("contentBlockDelta", r#"{"contentBlockIndex":1,"delta":{"toolUse":{"input":":1}"}}}"#),
        ("contentBlockStop", r#"{"contentBlockIndex":1}"#),
        ("messageStop", r#"{"stopReason":"tool_use"}"#),
        ("metadata", r#"{"usage":{"inputTokens":3,"outputTokens":4,"totalTokens":13,"cacheReadInputTokens":5,"cacheWriteInputTokens":1},"metrics":{"latencyMs":1}}"#),
    ])
    .unwrap();
    let usage = Usage { input: 9, output: 4, cache_read: 5, cache_write: 1, ..Usage::default() };
    assert_eq!((whole.usage, whole.stop), (usage, StopReason::ToolUse));
    assert_eq!(whole.message.tool_calls().next().unwrap().arguments, "{\"a\":1}");
    let opaque = whole.message.reasoning().next().unwrap().opaque.clone().unwrap();
    assert_eq!((opaque.provider.as_str(), opaque.data.as_str()), ("bedrock", "s1s2"));
}

#[test]
fn exceptions_inside_a_stream_have_their_class() {
    for (name, class) in [
        ("throttlingException", ModelErrorClass::RateLimited),
        ("modelStreamErrorException", ModelErrorClass::Overloaded),
        ("modelTimeoutException", ModelErrorClass::Timeout),
        ("validationException", ModelErrorClass::InvalidRequest),
    ] {
        let error =
            decode_response(&[("messageStart", "{}"), (name, r#"{"message":"no"}"#)]).unwrap_err();
        assert_eq!(error.class, class, "{name}");
        assert!(error.message.ends_with(": no"), "{error}");
    }
    assert_eq!(
        decode_response(&[("messageStart", "{}")]).unwrap_err().class,
        ModelErrorClass::StreamTruncated
    );
}

#[test]
fn a_key_is_sent_only_where_nothing_signs() {
    let mut headers = HeaderMap::new();
    BedrockConverse::default().headers(Some("k"), &mut headers).unwrap();
    assert_eq!(headers["authorization"], "Bearer k");
    let signing = BedrockConverse {
        credentials: Some(AwsCredentials {
            access_key_id: "A".to_owned(),
            secret_access_key: "hunter2".into(),
            session_token: None,
        }),
        ..BedrockConverse::default()
    };
    let mut headers = HeaderMap::new();
    signing.headers(Some("k"), &mut headers).unwrap();
    assert!(headers.is_empty());
    assert!(!format!("{signing:?}").contains("hunter2"));
}
