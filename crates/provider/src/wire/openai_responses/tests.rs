use provost_core::{Message, StopReason, Usage};
use provost_model::{ModelErrorClass, ModelEvent, OutputSchema, ReasoningEffort};
use serde_json::json;

use super::*;
use crate::wire::testing::{decode, decode_response, encode, info, test_request};

const CREATED: &str = r#"{"type":"response.created","response":{"id":"resp_1","model":"gpt-5.1","status":"in_progress"}}"#;

#[test]
fn settings_have_their_places_and_what_the_vendor_lacks_is_left_out() {
    let mut request = test_request();
    request.system = Some("Be brief.".into());
    request.settings.max_tokens = Some(100);
    request.settings.temperature = Some(0.5);
    request.settings.effort = Some(ReasoningEffort::High);
    request.settings.stop = vec!["END".to_owned()];
    request.settings.seed = Some(1);
    request.output = Some(std::sync::Arc::new(OutputSchema {
        name: "my answer".to_owned(),
        description: None,
        schema: json!({"type": "object", "properties": {"n": {"type": "integer"}}}),
    }));
    let body = encode(&OpenAiResponses::default(), &request, &info());
    assert_eq!(body["instructions"], "Be brief.");
    assert_eq!(body["max_output_tokens"], 100);
    assert_eq!(body["reasoning"], json!({"effort": "high", "summary": "auto"}));
    assert_eq!(body["text"]["format"]["name"], "my_answer");
    assert_eq!(body["text"]["format"]["strict"], true);
    assert!(body.get("stop").is_none() && body.get("seed").is_none(), "{body}");
    let plain = provost_model::ModelInfo { reasoning: false, ..info() };
    let body = encode(&OpenAiResponses::default(), &request, &plain);
    assert!(body.get("reasoning").is_none() && body.get("include").is_none(), "{body}");
}

#[test]
fn thoughts_that_nothing_follows_are_not_sent() {
    let events = [
        CREATED,
        r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","encrypted_content":"x","summary":[]}}"#,
        r#"{"type":"response.incomplete","response":{"incomplete_details":{"reason":"max_output_tokens"}}}"#,
    ];
    let cut = decode_response(&OpenAiResponses::default(), &events).unwrap();
    assert_eq!(cut.stop, StopReason::MaxTokens);
    let mut request = test_request();
    request.messages.push(std::sync::Arc::new(cut.message));
    request.messages.push(std::sync::Arc::new(Message::user("go on")));
    let body = encode(&OpenAiResponses::default(), &request, &info());
    assert_eq!(body["input"].as_array().unwrap().len(), 2, "{body}");
}

#[test]
fn a_server_that_tells_calls_only_when_they_are_whole_is_understood() {
    let item = r#"{"type":"response.output_item.done","output_index":1,"item":{"id":"fc","type":"function_call","call_id":"c1","name":"f","arguments":"{\"a\":1}"}}"#;
    let end = r#"{"type":"response.completed","response":{"id":"r","model":"m","usage":{"input_tokens":5,"output_tokens":2,"input_tokens_details":{"cached_tokens":3},"output_tokens_details":{"reasoning_tokens":1}}}}"#;
    let whole = decode_response(&OpenAiResponses::default(), &[item, end]).unwrap();
    let call = whole.message.tool_calls().next().unwrap();
    assert_eq!((call.id.as_str(), call.arguments.as_str()), ("c1", "{\"a\":1}"));
    assert_eq!(whole.stop, StopReason::ToolUse);
    let usage = Usage { input: 5, output: 2, cache_read: 3, reasoning: 1, ..Usage::default() };
    assert_eq!(whole.usage, usage);
    let twice = decode_response(
        &OpenAiResponses::default(),
        &[
            r#"{"type":"response.output_item.added","output_index":1,"item":{"type":"function_call","call_id":"c1","name":"f","arguments":""}}"#,
            r#"{"type":"response.function_call_arguments.done","output_index":1,"arguments":"{\"a\":1}"}"#,
            item,
            end,
        ],
    );
    let twice = twice.unwrap();
    let calls: Vec<_> = twice.message.tool_calls().collect();
    assert_eq!((calls.len(), calls[0].arguments.as_str()), (1, "{\"a\":1}"));
}

#[test]
fn failures_inside_a_stream_have_their_class() {
    for (event, class) in [
        (
            r#"{"type":"response.failed","response":{"error":{"code":"rate_limit_exceeded","message":"slow"}}}"#,
            ModelErrorClass::RateLimited,
        ),
        (
            r#"{"type":"error","code":"context_length_exceeded","message":"long","param":null}"#,
            ModelErrorClass::ContextLength,
        ),
        (
            r#"{"type":"response.failed","response":{"error":{"code":"server_error","message":"x"}}}"#,
            ModelErrorClass::Overloaded,
        ),
    ] {
        let (_, result) = decode(&OpenAiResponses::default(), &[CREATED, event]);
        assert_eq!(result.unwrap_err().class, class, "{event}");
    }
    let (events, result) = decode(&OpenAiResponses::default(), &[CREATED]);
    assert_eq!(result.unwrap_err().class, ModelErrorClass::StreamTruncated);
    assert!(
        matches!(&events[0], ModelEvent::Started { response_id: Some(id), .. } if id == "resp_1")
    );
}

#[test]
fn sealed_thoughts_go_only_to_whom_they_belong_and_to_the_same_model() {
    let events = [
        CREATED,
        r#"{"type":"response.output_item.done","output_index":0,"item":{"id":"rs_1","type":"reasoning","encrypted_content":"x","summary":[]}}"#,
        r#"{"type":"response.output_text.delta","output_index":1,"delta":"hi"}"#,
        r#"{"type":"response.completed","response":{}}"#,
    ];
    let said = decode_response(&OpenAiResponses::default(), &events).unwrap().message;
    let sent = |wire: &OpenAiResponses, model: &str| {
        let mut request = test_request();
        request.messages.push(std::sync::Arc::new(said.clone()));
        let info = provost_model::ModelInfo { model: model.to_owned(), ..info() };
        let body = encode(wire, &request, &info);
        body["input"].as_array().unwrap().iter().any(|item| item["type"] == "reasoning")
    };
    assert!(sent(&OpenAiResponses::default(), "gpt-5.1"));
    assert!(!sent(&OpenAiResponses::default(), "gpt-4o"));
    let azure = OpenAiResponses { provider: "azure".into(), ..OpenAiResponses::default() };
    assert!(!sent(&azure, "gpt-5.1"));
}
