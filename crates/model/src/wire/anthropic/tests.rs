use std::sync::Arc;

use provost_core::{
    Message, Opaque, Part, Reasoning, Role, StopReason, Timestamp, ToolCall, ToolDef, ToolResult,
    Usage,
};
use serde_json::{Value, json};

use super::*;
use crate::wire::testing::{answer, ask, decode, encode, info};
use crate::{Effort, ModelErrorClass, ModelEvent, OutputSchema, Settings, ToolChoice};

fn sent_by(wire: &AnthropicMessages, change: impl FnOnce(&mut ChatRequest)) -> Value {
    let mut request = ask();
    change(&mut request);
    encode(wire, &request, &info())
}

fn sent(change: impl FnOnce(&mut ChatRequest)) -> Value {
    let plain = AnthropicMessages { prompt_cache: false, ..AnthropicMessages::default() };
    sent_by(&plain, change)
}

fn messages(messages: impl IntoIterator<Item = Message>) -> Value {
    let messages: Vec<_> = messages.into_iter().map(Arc::new).collect();
    sent(|request| request.messages = messages)["messages"].clone()
}

fn tool() -> Arc<ToolDef> {
    Arc::new(ToolDef {
        name: "f".to_owned(),
        description: "Does it.".to_owned(),
        input_schema: json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
    })
}

fn assistant(parts: Vec<Part>) -> Message {
    Message::new(Role::Assistant, parts, Timestamp::default())
}

fn thought(provider: &str, kind: &str, text: &str, data: &str) -> Part {
    Part::Reasoning(Reasoning {
        text: text.to_owned(),
        opaque: Some(Opaque { provider: provider.into(), kind: kind.into(), data: data.into() }),
    })
}

#[test]
fn only_what_is_set_is_sent() {
    assert_eq!(
        sent(|_| {}),
        json!({
            "model": "m-1", "max_tokens": 8192, "stream": true,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}],
        })
    );
    let mut known = info();
    known.max_output = Some(64_000);
    let body = encode(&AnthropicMessages::default(), &ask(), &known);
    assert_eq!(body["max_tokens"], 64_000);
}

#[test]
fn the_ends_of_system_tools_and_conversation_are_marked_for_the_cache() {
    let change = |request: &mut ChatRequest| {
        request.system = Some("Be brief.".into());
        request.tools = vec![tool(), tool()];
        request.messages.push(Arc::new(Message::new(
            Role::System,
            vec![Part::text("More.")],
            Timestamp::default(),
        )));
    };
    let mark = json!({"type": "ephemeral"});
    let body = sent_by(&AnthropicMessages::default(), change);
    assert_eq!(
        body["system"],
        json!([{"type": "text", "text": "Be brief."}, {"type": "text", "text": "More.", "cache_control": mark}])
    );
    assert_eq!(body["tools"][0].get("cache_control"), None);
    assert_eq!(body["tools"][1]["cache_control"], mark);
    assert_eq!(body["tools"][1]["input_schema"]["required"], json!(["a"]));
    assert_eq!(body["messages"][0]["content"][0]["cache_control"], mark);
    assert!(!sent(change).to_string().contains("cache_control"));
}

#[test]
fn turns_alternate_and_begin_with_the_user() {
    let call = ToolCall::new("weird.id:1", "f", &json!({}));
    let sent = messages([
        Message::assistant("I was cut off"),
        Message::assistant("and go on"),
        Message::user("  \n"),
        Message::user("one"),
        Message::summary("two"),
        Message::calls([call.clone()]),
        Message::results([ToolResult::text(&call, "")]),
        Message::user("three"),
        assistant(vec![Part::text("prefill  ")]),
    ]);
    assert_eq!(
        sent,
        json!([
            {"role": "user", "content": [{"type": "text", "text": "(The conversation continues.)"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "I was cut off"}, {"type": "text", "text": "and go on"}]},
            {"role": "user", "content": [
                {"type": "text", "text": "one"},
                {"type": "text", "text": "Summary of the conversation so far:"},
                {"type": "text", "text": "two"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "weird_id_1", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "weird_id_1"}, {"type": "text", "text": "three"}]},
            {"role": "assistant", "content": [{"type": "text", "text": "prefill"}]},
        ])
    );
}

#[test]
fn thinking_returns_only_to_the_model_that_thought_it() {
    let parts = || {
        vec![
            thought("anthropic", "signature", "", "sig\u{2028}=="),
            thought("anthropic", "redacted_thinking", "", "enc"),
            thought("openai", "encrypted", "no", "zzz"),
            Part::Reasoning(Reasoning { text: "unsigned".into(), opaque: None }),
            Part::text("so"),
        ]
    };
    let thinking = json!([
        {"type": "thinking", "thinking": "", "signature": "sig\u{2028}=="},
        {"type": "redacted_thinking", "data": "enc"},
        {"type": "text", "text": "so"},
    ]);
    let bare = json!([{"type": "text", "text": "so"}]);
    for (model, expected) in [
        (None, &thinking),
        (Some("m-1"), &thinking),
        (Some("m-1-20260101"), &thinking),
        (Some("gate/m-1"), &thinking),
        (Some("m-2"), &bare),
    ] {
        let mut message = assistant(parts());
        message.model = model.map(str::to_owned);
        let sent = messages([Message::user("x"), message, Message::user("y")]);
        assert_eq!(&sent[1]["content"], expected, "{model:?}");
    }
}

#[test]
fn arguments_that_are_no_object_are_wrapped() {
    for (arguments, input) in [
        ("{\"b\":1,\"a\":2.50}", json!({"b": 1, "a": 2.5})),
        ("", json!({})),
        ("  ", json!({})),
        ("{oops", json!({"_raw": "{oops"})),
        ("[1]", json!({"_raw": "[1]"})),
        ("\"text\"", json!({"_raw": "\"text\""})),
        ("{} {}", json!({"_raw": "{} {}"})),
    ] {
        let call =
            ToolCall { arguments: arguments.to_owned(), ..ToolCall::new("c", "f", &json!({})) };
        let sent = messages([Message::user("x"), Message::calls([call])]);
        assert_eq!(sent[1]["content"][0]["input"], input, "{arguments}");
    }
}

fn with(effort: Effort, max_tokens: u64) -> Settings {
    Settings {
        effort: Some(effort),
        max_tokens: Some(max_tokens),
        temperature: Some(0.3),
        top_p: Some(0.9),
        ..Settings::default()
    }
}

#[test]
fn effort_becomes_thinking_as_the_model_wants_it() {
    let adaptive = AnthropicMessages::default();
    let budget = AnthropicMessages { thinking: Thinking::Budget, ..AnthropicMessages::default() };
    for (wire, effort, max, thinking, word) in [
        (
            &adaptive,
            Effort::Minimal,
            9000,
            json!({"type": "adaptive", "display": "summarized"}),
            json!("low"),
        ),
        (
            &adaptive,
            Effort::High,
            9000,
            json!({"type": "adaptive", "display": "summarized"}),
            json!("high"),
        ),
        (
            &budget,
            Effort::Minimal,
            10_000,
            json!({"type": "enabled", "budget_tokens": 1024}),
            Value::Null,
        ),
        (
            &budget,
            Effort::Medium,
            10_000,
            json!({"type": "enabled", "budget_tokens": 5000}),
            Value::Null,
        ),
        (
            &budget,
            Effort::High,
            10_000,
            json!({"type": "enabled", "budget_tokens": 8000}),
            Value::Null,
        ),
        (&budget, Effort::High, 1000, Value::Null, Value::Null),
    ] {
        let body = sent_by(wire, |request| request.settings = with(effort, max));
        assert_eq!(body["thinking"], thinking, "{effort:?}");
        assert_eq!(body["output_config"]["effort"], word, "{effort:?}");
        assert_eq!(
            body.get("temperature").is_some(),
            thinking.is_null(),
            "the vendor refuses both together"
        );
    }
}

#[test]
fn a_model_that_does_not_reason_is_not_asked_to() {
    let mut plain = info();
    plain.reasoning = false;
    let mut request = ask();
    request.settings = with(Effort::High, 9000);
    let adaptive = AnthropicMessages::default();
    let body = encode(&adaptive, &request, &plain);
    assert!(body.get("thinking").is_none() && body.get("output_config").is_none());
    assert_eq!((&body["temperature"], &body["top_p"]), (&json!(0.3), &json!(0.9)));
    let strict = AnthropicMessages { sampling: false, ..AnthropicMessages::default() };
    assert!(encode(&strict, &request, &plain).get("temperature").is_none());
}

#[test]
fn thinking_stays_away_where_the_vendor_refuses_it() {
    let budget = AnthropicMessages { thinking: Thinking::Budget, ..AnthropicMessages::default() };
    let thinking = |change: &dyn Fn(&mut ChatRequest)| {
        let body = sent_by(&budget, |request| {
            request.settings.effort = Some(Effort::High);
            request.tools = vec![tool()];
            change(request);
        });
        body.get("thinking").is_some()
    };
    assert!(thinking(&|_| {}));
    assert!(!thinking(&|request| request.tool_choice = ToolChoice::Required));
    assert!(!thinking(&|request| request.tool_choice = ToolChoice::Tool("f".into())));
    let call = ToolCall::new("c", "f", &json!({}));
    let round = |parts: Vec<Part>| {
        let mut parts = parts;
        parts.push(Part::ToolCall(call.clone()));
        [Message::user("x"), assistant(parts), Message::results([ToolResult::text(&call, "y")])]
    };
    let set = |request: &mut ChatRequest, messages: [Message; 3]| {
        request.messages = messages.into_iter().map(Arc::new).collect();
    };
    assert!(
        !thinking(&|request| set(request, round(vec![]))),
        "a loop that began without thinking"
    );
    let own = || vec![thought("anthropic", "signature", "hm", "s")];
    assert!(thinking(&|request| set(request, round(own()))));
}

#[test]
fn output_schemas_use_the_vendors_field_or_words() {
    let output = |schema: Value| {
        Some(Arc::new(OutputSchema { name: "n".into(), description: None, schema }))
    };
    let simple = json!({"type": "object", "properties": {"a": {"type": "integer", "minimum": 1}}});
    let body = sent(|request| {
        request.output = output(simple);
        request.settings.effort = Some(Effort::Low);
    });
    assert_eq!(
        body["output_config"],
        json!({"effort": "low", "format": {"type": "json_schema", "schema": {
            "type": "object", "properties": {"a": {"type": "integer", "description": "(minimum: 1)"}},
            "required": [], "additionalProperties": false}}})
    );
    let map = json!({"type": "object", "additionalProperties": {"type": "string"}});
    let body = sent(|request| request.output = output(map));
    assert!(body.get("output_config").is_none());
    assert!(body["system"][0]["text"].as_str().unwrap().contains("additionalProperties"));
}

#[test]
fn tools_that_the_history_uses_stay_defined() {
    let call = ToolCall::new("c", "gone", &json!({}));
    let body = sent(|request| {
        request.messages.push(Arc::new(Message::calls([call.clone()])));
        request.messages.push(Arc::new(Message::results([ToolResult::text(&call, "y")])));
    });
    assert_eq!(body["tools"], json!([{"name": "gone", "input_schema": {"type": "object"}}]));
    assert_eq!(body["tool_choice"], json!({"type": "none"}));
    let one = sent(|request| {
        request.tools = vec![tool()];
        request.settings.parallel_tool_calls = Some(false);
    });
    assert_eq!(one["tool_choice"], json!({"type": "auto", "disable_parallel_tool_use": true}));
}

const START: &str = r#"{"type":"message_start","message":{"id":"msg_1","model":"m-1","role":"assistant","content":[],"stop_reason":null,"usage":{"input_tokens":10,"cache_creation_input_tokens":5,"cache_read_input_tokens":100,"output_tokens":1}}}"#;
const STOP: &str = r#"{"type":"message_stop"}"#;

fn ending(reason: &str) -> String {
    format!(
        r#"{{"type":"message_delta","delta":{{"stop_reason":"{reason}","stop_sequence":null}},"usage":{{"output_tokens":42}}}}"#
    )
}

#[test]
fn a_whole_answer_is_read() {
    let end = ending("tool_use");
    let data = [
        START,
        r#"{"type":"ping"}"#,
        r#"{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"h"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"m"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"ab"}}"#,
        r#"{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c="}}"#,
        r#"{"type":"content_block_stop","index":0}"#,
        r#"{"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"zz"}}"#,
        r#"{"type":"content_block_stop","index":1}"#,
        r#"{"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}"#,
        r#"{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"Hi"}}"#,
        r#"{"type":"content_block_stop","index":2}"#,
        r#"{"type":"content_block_start","index":3,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}"#,
        r#"{"type":"content_block_delta","index":3,"delta":{"type":"input_json_delta","partial_json":"{\"q\":1}"}}"#,
        r#"{"type":"content_block_stop","index":3}"#,
        r#"{"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"a","name":"f","input":{}}}"#,
        r#"{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":""}}"#,
        r#"{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{\"x\""}}"#,
        r#"{"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":":1}"}}"#,
        r#"{"type":"content_block_stop","index":4}"#,
        r#"{"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"b","name":"g","input":{"whole":true}}}"#,
        r#"{"type":"content_block_stop","index":5}"#,
        r#"{"type":"brand_new_event","delta":{}}"#,
        &end,
        STOP,
    ];
    let answer = answer(&AnthropicMessages::default(), &data).unwrap();
    let expected = [
        thought("anthropic", "signature", "hm", "abc="),
        thought("anthropic", "redacted_thinking", "", "zz"),
        Part::text("Hi"),
        Part::ToolCall(ToolCall {
            arguments: "{\"x\":1}".into(),
            ..ToolCall::new("a", "f", &json!({}))
        }),
        Part::ToolCall(ToolCall {
            arguments: "{\"whole\":true}".into(),
            ..ToolCall::new("b", "g", &json!({}))
        }),
    ];
    assert_eq!(answer.message.parts, expected);
    assert_eq!(answer.stop, StopReason::ToolUse);
    assert_eq!(answer.response_id.as_deref(), Some("msg_1"));
    assert_eq!(
        answer.usage,
        Usage { input: 115, output: 42, cache_read: 100, cache_write: 5, reasoning: 0 }
    );
}

#[test]
fn stops_and_breaks_are_told() {
    let wire = AnthropicMessages::default();
    for (reason, expected) in [
        ("end_turn", StopReason::EndTurn),
        ("max_tokens", StopReason::MaxTokens),
        ("model_context_window_exceeded", StopReason::MaxTokens),
        ("stop_sequence", StopReason::StopSequence),
        ("tool_use", StopReason::ToolUse),
        ("refusal", StopReason::Refusal),
        ("pause_turn", StopReason::Unknown),
    ] {
        let end = ending(reason);
        assert_eq!(answer(&wire, &[START, &end, STOP]).unwrap().stop, expected);
        assert_eq!(
            answer(&wire, &[START, &end]).unwrap().stop,
            expected,
            "the last word may be lost"
        );
    }
    let delta = r#"{"type":"content_block_delta","index":7,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#;
    let nameless = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","input":{}}}"#;
    let overloaded =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    for (data, class) in [
        (vec![START], ModelErrorClass::Incomplete),
        (vec![START, STOP], ModelErrorClass::Incomplete),
        (vec![START, delta], ModelErrorClass::Malformed),
        (vec![START, nameless], ModelErrorClass::Malformed),
        (vec![START, "{"], ModelErrorClass::Malformed),
        (vec![START, "[]"], ModelErrorClass::Malformed),
        (vec![START, overloaded], ModelErrorClass::Overloaded),
    ] {
        assert_eq!(answer(&wire, &data).unwrap_err().class, class, "{data:?}");
    }
    let (events, _) = decode(&wire, &[START]);
    assert_eq!(
        events,
        [ModelEvent::Started { response_id: Some("msg_1".into()), model: Some("m-1".into()) }]
    );
}
