use std::sync::Arc;

use provost_core::{
    ContentPart, Image, Message, Role, StopReason, Timestamp, ToolCall, ToolDefinition, ToolResult,
    Usage,
};
use provost_model::{
    ModelErrorClass, ModelEvent, ModelSettings, OutputSchema, ReasoningEffort,
    StructuredOutputSupport,
};
use serde_json::{Value, json};

use super::*;
use crate::wire::testing::{decode, decode_response, encode, info, test_request};

fn sent(change: impl FnOnce(&mut ChatRequest)) -> Value {
    let mut request = test_request();
    change(&mut request);
    encode(&OpenAiChat::default(), &request, &info())
}

fn tool() -> Arc<ToolDefinition> {
    Arc::new(ToolDefinition {
        name: "f".to_owned(),
        description: String::new(),
        input_schema: json!({"type": "object"}),
    })
}

#[test]
fn only_what_is_set_is_sent() {
    assert_eq!(
        sent(|_| {}),
        json!({
            "model": "m-1",
            "messages": [{"role": "user", "content": "Hi"}],
            "stream": true,
            "stream_options": {"include_usage": true},
        })
    );
}

#[test]
fn settings_have_the_vendors_names() {
    let settings = ModelSettings {
        max_tokens: Some(100),
        temperature: Some(0.5),
        top_p: Some(0.9),
        stop: ["a", "b", "c", "d", "e"].map(String::from).to_vec(),
        seed: Some(-3),
        effort: Some(ReasoningEffort::Low),
        parallel_tool_calls: Some(false),
        ..ModelSettings::default()
    };
    let body = sent(|request| {
        request.settings = settings.clone();
        request.tools = vec![tool()];
    });
    for (field, value) in [
        ("max_completion_tokens", json!(100)),
        ("temperature", json!(0.5)),
        ("top_p", json!(0.9)),
        ("seed", json!(-3)),
        ("reasoning_effort", json!("low")),
        ("parallel_tool_calls", json!(false)),
    ] {
        assert_eq!(body[field], value, "{field}");
    }
    assert!(body.get("max_tokens").is_none());
    let old = OpenAiChat { legacy_max_tokens: true, ..OpenAiChat::default() };
    let mut request = test_request();
    request.settings = settings;
    let mut plain = info();
    plain.reasoning = false;
    let body = encode(&old, &request, &plain);
    assert_eq!(body["max_tokens"], 100);
    for field in ["max_completion_tokens", "reasoning_effort", "parallel_tool_calls", "tools"] {
        assert!(body.get(field).is_none(), "{field}");
    }
}

#[test]
fn s226_stop_sequences_are_capped_at_four() {
    let stop: Vec<String> = (0..9).map(|n| n.to_string()).collect();
    let body = sent(|request| request.settings.stop = stop);
    assert_eq!(body["stop"], json!(["0", "1", "2", "3"]));
}

#[test]
fn s226_extra_fields_win_and_null_takes_away() {
    let extra = json!({"top_k": 5, "temperature": 1, "stream_options": null, "logit_bias": {"5": -1}, "n": 2});
    let Value::Object(extra) = extra else { unreachable!() };
    let body = sent(|request| {
        request.settings.temperature = Some(0.0);
        request.settings.extra = extra;
    });
    assert_eq!(body["temperature"], 1);
    assert_eq!(body["top_k"], 5);
    assert_eq!(body["logit_bias"], json!({"5": -1}));
    assert_eq!(body["n"], 2);
    assert!(body.get("stream_options").is_none());
    let plain = sent(|_| {});
    for field in ["top_k", "logit_bias", "logprobs", "n"] {
        assert!(plain.get(field).is_none(), "{field}");
    }
}

#[test]
fn a_schema_is_strict_where_it_can_be() {
    let output = |schema: Value| {
        Some(Arc::new(OutputSchema { name: "My City".into(), description: None, schema }))
    };
    let simple = json!({"type": "object", "properties": {"a": {"type": "integer"}}});
    let body = sent(|request| request.output = output(simple.clone()));
    assert_eq!(
        body["response_format"],
        json!({"type": "json_schema", "json_schema": {"name": "My_City", "strict": true, "schema":
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": false}}})
    );
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let body = sent(|request| request.output = output(map.clone()));
    assert_eq!(body["response_format"]["json_schema"]["strict"], false);
    assert_eq!(body["response_format"]["json_schema"]["schema"], map);
    for (native, with_tools, there) in [
        (StructuredOutputSupport::None, false, false),
        (StructuredOutputSupport::WithoutTools, false, true),
        (StructuredOutputSupport::WithoutTools, true, false),
        (StructuredOutputSupport::WithTools, true, true),
    ] {
        let mut request = test_request();
        request.output = output(simple.clone());
        request.tools = if with_tools { vec![tool()] } else { Vec::new() };
        let mut info = info();
        info.native_output = native;
        let body = encode(&OpenAiChat::default(), &request, &info);
        assert_eq!(body.get("response_format").is_some(), there, "{native:?}");
    }
}

#[test]
fn messages_that_say_nothing_are_left_out() {
    let messages = [
        Message::user(""),
        Message::new(
            Role::Assistant,
            vec![ContentPart::Reasoning(provost_core::Reasoning {
                text: "hm".into(),
                opaque: None,
            })],
            Timestamp::default(),
        ),
        Message::new(
            Role::User,
            vec![ContentPart::Unknown(json!({"type": "future"}))],
            Timestamp::default(),
        ),
        Message::new(Role::System, vec![ContentPart::text("mid")], Timestamp::default()),
        Message::new(
            Role::Assistant,
            vec![ContentPart::text("a"), ContentPart::text("b")],
            Timestamp::default(),
        ),
        Message::new(
            Role::User,
            vec![ContentPart::text("a"), ContentPart::text("b")],
            Timestamp::default(),
        ),
    ];
    let body = sent(|request| request.messages = messages.into_iter().map(Arc::new).collect());
    assert_eq!(
        body["messages"],
        json!([
            {"role": "system", "content": "mid"},
            {"role": "assistant", "content": "ab"},
            {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        ])
    );
}

#[test]
fn results_of_one_turn_stay_together_before_their_images() {
    let calls = ["c1", "c2"].map(|id| ToolCall::new(id, "shot", &json!({})));
    let mut first = ToolResult::error(&calls[0], "");
    first.parts = vec![provost_core::ToolResultPart::Image(Image {
        detail: Some("low".into()),
        ..Image::url("https://x/1.png")
    })];
    let second = ToolResult::text(&calls[1], "error: two");
    let messages = [
        Message::calls(calls),
        Message::results([first]),
        Message::results([ToolResult { is_error: true, ..second }]),
    ];
    let body = sent(|request| request.messages = messages.into_iter().map(Arc::new).collect());
    let messages = &body["messages"];
    assert_eq!(
        messages[1],
        json!({"role": "tool", "tool_call_id": "c1", "content": "Error: The result is in the next message."})
    );
    assert_eq!(messages[2], json!({"role": "tool", "tool_call_id": "c2", "content": "error: two"}));
    assert_eq!(messages[3]["role"], "user");
    assert_eq!(
        messages[3]["content"][1],
        json!({"type": "image_url", "image_url": {"url": "https://x/1.png", "detail": "low"}})
    );
    let mut blind = info();
    blind.images = false;
    let request = ChatRequest::new([Message::new(
        Role::User,
        vec![Image::url("https://x").into()],
        Timestamp::default(),
    )]);
    let body = encode(&OpenAiChat::default(), &request, &blind);
    assert!(body["messages"][0]["content"].as_str().unwrap().contains("cannot see images"));
}

const DONE: &str = "[DONE]";

/// Name of the variation, its chunks, and the id, name and arguments of each call.
type CallCase =
    (&'static str, &'static [&'static str], &'static [(&'static str, &'static str, &'static str)]);

const CALL_CASES: &[CallCase] = &[
    (
        "no index, whole calls",
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"b","function":{"name":"g","arguments":"{\"x\":1}"}}]}}]}"#,
        ],
        &[("a", "f", "{}"), ("b", "g", "{\"x\":1}")],
    ),
    (
        "same index, own ids",
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"g","arguments":"{}"}}]}}]}"#,
        ],
        &[("a", "f", "{}"), ("b", "g", "{}")],
    ),
    (
        "id and name repeated with each piece",
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"\":1}"}}]}}]}"#,
        ],
        &[("a", "f", "{\"x\":1}")],
    ),
    (
        "no id at all, pieces without an index",
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"name":"f","arguments":"{"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"}"}}]}}]}"#,
        ],
        &[("", "f", "{}")],
    ),
    (
        "arguments as an object, and null",
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":{"x":1}}},{"index":1,"id":"b","function":{"name":"g","arguments":null}}]}}]}"#,
        ],
        &[("a", "f", "{\"x\":1}"), ("b", "g", "")],
    ),
    (
        "arguments before the name, calls interleaved",
        &[
            r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"[]"}}]}}]}"#,
            r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"name":"f","arguments":"}"}}]}}]}"#,
        ],
        &[("b", "g", "[]"), ("a", "f", "{}")],
    ),
];

#[test]
fn calls_are_told_apart_however_a_server_counts_them() {
    let wire = OpenAiChat::default();
    let stop = r#"{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}"#;
    for (name, data, expected) in CALL_CASES {
        let data: Vec<&str> = data.iter().copied().chain([stop, DONE]).collect();
        let answer = decode_response(&wire, &data).unwrap();
        let calls: Vec<_> = answer
            .message
            .tool_calls()
            .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
            .collect();
        assert_eq!(calls, *expected, "{name}");
        assert_eq!(answer.stop, StopReason::ToolUse);
    }
    let missing_tool_name = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"arguments":"{}"}}]}}]}"#;
    assert_eq!(
        decode_response(&wire, &[missing_tool_name, stop]).unwrap_err().class,
        ModelErrorClass::Malformed
    );
}

#[test]
fn stops_are_read_also_where_servers_are_sloppy() {
    let wire = OpenAiChat::default();
    let text = r#"{"choices":[{"delta":{"content":"x"},"finish_reason":""}]}"#;
    let call = r#"{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]}}]}"#;
    let stop = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    for (data, expected) in [
        (vec![text, stop, DONE], StopReason::EndTurn),
        (vec![text, stop], StopReason::EndTurn),
        (vec![text, DONE], StopReason::EndTurn),
        (vec![call, stop, DONE], StopReason::ToolUse),
        (vec![text, r#"{"choices":[{"finish_reason":"function_call"}]}"#], StopReason::ToolUse),
        (
            vec![text, r#"{"choices":[{"finish_reason":"stop","stop_reason":"END"}]}"#],
            StopReason::StopSequence,
        ),
        (
            vec![text, r#"{"choices":[{"finish_reason":"stop","stop_reason":128001}]}"#],
            StopReason::EndTurn,
        ),
        (vec![r#"{"choices":[{"delta":{"refusal":"I can't."}}]}"#, stop], StopReason::Refusal),
        (vec![text, r#"{"choices":[{"finish_reason":"length"}]}"#], StopReason::MaxTokens),
        (
            vec![text, r#"{"choices":[{"finish_reason":"content_filter"}]}"#],
            StopReason::ContentFilter,
        ),
        (vec![text, r#"{"choices":[{"finish_reason":"odd"}]}"#], StopReason::Unknown),
    ] {
        assert_eq!(decode_response(&wire, &data).unwrap().stop, expected, "{data:?}");
    }
    for (data, class) in [
        (vec![text], ModelErrorClass::StreamTruncated),
        (vec![], ModelErrorClass::StreamTruncated),
        (vec![r#"{"id":"x"}"#, DONE], ModelErrorClass::Malformed),
        (vec!["not json"], ModelErrorClass::Malformed),
        (vec![text, r#"{"choices":[{"delta":{"content":7}}]}"#], ModelErrorClass::Malformed),
        (
            vec![text, r#"{"error":{"message":"Overloaded","code":502}}"#],
            ModelErrorClass::Overloaded,
        ),
    ] {
        assert_eq!(decode_response(&wire, &data).unwrap_err().class, class, "{data:?}");
    }
}

#[test]
fn s226_reasoning_is_read_plain_structured_and_in_pieces() {
    let wire = OpenAiChat::default();
    for delta in [
        r#"{"reasoning_content":"hm"}"#,
        r#"{"reasoning":"hm"}"#,
        r#"{"reasoning":{"text":"hm"}}"#,
        r#"{"reasoning_details":[{"type":"reasoning.text","text":"h"},{"type":"reasoning.summary","summary":"m"}]}"#,
        r#"{"reasoning":"hm","reasoning_details":[{"text":"hm"}]}"#,
    ] {
        let chunk = format!(r#"{{"choices":[{{"index":0,"delta":{delta}}}]}}"#);
        let (events, _) = decode(&wire, &[&chunk]);
        assert_eq!(events, [ModelEvent::Reasoning("hm".into())], "{delta}");
    }
}

#[test]
fn usage_counts_cached_tokens_inside_the_input() {
    let wire = OpenAiChat::default();
    let end = r#"{"choices":[{"delta":{},"finish_reason":"stop"}]}"#;
    for (usage, expected) in [
        (
            r#"{"prompt_tokens":10,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":3}}"#,
            Usage { input: 10, output: 5, cache_read: 4, reasoning: 3, ..Usage::default() },
        ),
        (
            r#"{"prompt_tokens":10,"completion_tokens":5,"prompt_cache_hit_tokens":6}"#,
            Usage { input: 10, output: 5, cache_read: 6, ..Usage::default() },
        ),
        (
            r#"{"prompt_tokens":10,"completion_tokens":null,"prompt_tokens_details":null}"#,
            Usage::new(10, 0),
        ),
    ] {
        let chunk = format!(r#"{{"choices":[],"usage":{usage}}}"#);
        assert_eq!(
            decode_response(&wire, &[end, &chunk, DONE]).unwrap().usage,
            expected,
            "{usage}"
        );
    }
}

#[test]
fn s226_further_choices_logprobs_and_named_fields_are_kept() {
    let wire = OpenAiChat { metadata_fields: vec!["citations".into()], ..OpenAiChat::default() };
    let data = [
        r#"{"id":"r","choices":[{"index":0,"delta":{"content":"a"},"logprobs":{"content":[{"token":"a"}]}},{"index":1,"delta":{"content":"b"}}]}"#,
        r#"{"choices":[{"index":1,"delta":{"content":"B"},"finish_reason":"stop"}],"citations":["https://x"]}"#,
        r#"{"choices":[{"index":0,"delta":{},"finish_reason":"stop","logprobs":null}],"citations":null}"#,
        DONE,
    ];
    let answer = decode_response(&wire, &data).unwrap();
    assert_eq!(answer.message.text(), "a");
    assert_eq!(answer.metadata["openai.choices"], json!(["bB"]));
    assert_eq!(answer.metadata["openai.citations"], json!(["https://x"]));
    assert_eq!(answer.metadata["openai.logprobs"], json!([{"content": [{"token": "a"}]}]));
}
