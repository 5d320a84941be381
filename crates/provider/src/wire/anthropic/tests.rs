use std::sync::Arc;

use provost_core::{
    ContentPart, Message, ProviderData, Reasoning, Role, Timestamp, ToolCall, ToolDefinition,
    ToolResult,
};
use provost_model::{ModelSettings, OutputSchema, ReasoningEffort, ToolChoice};
use serde_json::{Value, json};

use super::*;
use crate::wire::testing::{encode, info, test_request};

fn sent_by(wire: &AnthropicMessages, change: impl FnOnce(&mut ChatRequest)) -> Value {
    let mut request = test_request();
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

fn tool() -> Arc<ToolDefinition> {
    Arc::new(ToolDefinition {
        name: "f".to_owned(),
        description: "Does it.".to_owned(),
        input_schema: json!({"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}),
    })
}

fn assistant(parts: Vec<ContentPart>) -> Message {
    Message::new(Role::Assistant, parts, Timestamp::default())
}

pub(super) fn thought(provider: &str, kind: &str, text: &str, data: &str) -> ContentPart {
    ContentPart::Reasoning(Reasoning {
        text: text.to_owned(),
        opaque: Some(ProviderData {
            provider: provider.into(),
            kind: kind.into(),
            data: data.into(),
        }),
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
    let body = encode(&AnthropicMessages::default(), &test_request(), &known);
    assert_eq!(body["max_tokens"], 64_000);
}

#[test]
fn the_ends_of_system_tools_and_conversation_are_marked_for_the_cache() {
    let change = |request: &mut ChatRequest| {
        request.system = Some("Be brief.".into());
        request.tools = vec![tool(), tool()];
        request.messages.push(Arc::new(Message::new(
            Role::System,
            vec![ContentPart::text("More.")],
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
        assistant(vec![ContentPart::text("prefill  ")]),
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
            {"role": "assistant", "content": [{"type": "tool_use", "id": "esc-weird-2eid-3a1", "name": "f", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "esc-weird-2eid-3a1"}, {"type": "text", "text": "three"}]},
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
            ContentPart::Reasoning(Reasoning { text: "unsigned".into(), opaque: None }),
            ContentPart::text("so"),
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
        (Some("m-1-2026-01-01"), &thinking),
        (Some("m-1-latest"), &thinking),
        (Some("m-1@20260101"), &thinking),
        (Some("gate/m-1"), &thinking),
        (Some("m-2"), &bare),
        (Some("m"), &bare),
        (Some("m-1-5"), &bare),
        (Some("m-1-5-20260101"), &bare),
        (Some("m-1-mini"), &bare),
        (Some("m-10"), &bare),
    ] {
        let mut message = assistant(parts());
        message.model = model.map(str::to_owned);
        let sent = messages([Message::user("x"), message, Message::user("y")]);
        assert_eq!(&sent[1]["content"], expected, "{model:?}");
    }
}

#[test]
fn a_turn_never_ends_in_thinking() {
    let hm = || thought("anthropic", "signature", "hm", "s");
    let hidden = || thought("anthropic", "redacted_thinking", "", "enc");
    let said = |role: &str, texts: &[&str]| {
        let texts: Vec<_> =
            texts.iter().map(|text| json!({"type": "text", "text": text})).collect();
        json!({"role": role, "content": texts})
    };
    // A message with only thinking is removed, and its neighbours are merged.
    assert_eq!(
        messages([Message::user("a"), assistant(vec![hm(), hidden()]), Message::user("b")]),
        json!([said("user", &["a", "b"])])
    );
    assert_eq!(
        messages([assistant(vec![hm()]), Message::user("b")]),
        json!([said("user", &["b"])])
    );
    // A message that continues after the thinking keeps its text.
    let cut = assistant(vec![ContentPart::text("so "), hm()]);
    assert_eq!(
        messages([Message::user("a"), cut.clone(), Message::user("b")]),
        json!([said("user", &["a"]), said("assistant", &["so "]), said("user", &["b"])])
    );
    assert_eq!(
        messages([Message::user("a"), cut]),
        json!([said("user", &["a"]), said("assistant", &["so"])])
    );
    assert_eq!(
        messages([Message::user("a"), assistant(vec![hm()])]),
        json!([said("user", &["a"])])
    );
    // Two assistant messages are merged, so only the end of the second one matters.
    let sent = messages([
        Message::user("a"),
        assistant(vec![hm()]),
        assistant(vec![ContentPart::text("b")]),
        Message::user("c"),
    ]);
    let kinds: Vec<_> =
        sent[1]["content"].as_array().unwrap().iter().map(|block| block["type"].clone()).collect();
    assert_eq!(kinds, ["thinking", "text"]);
}

#[test]
fn call_ids_are_legal_and_stay_different() {
    let ids = [
        "functions.pay:0",
        "functions_pay_0",
        "functions-2epay-3a0",
        "functions-2epay:0",
        "esc-functions-2epay-3a0",
        "functions:pay.0",
        "toolu_01-A",
        "",
        "esc-",
        "é",
        "a b",
    ];
    let calls: Vec<_> = ids.iter().map(|id| ToolCall::new(*id, "f", &json!({}))).collect();
    let results: Vec<_> = calls.iter().map(|call| ToolResult::text(call, "y")).collect();
    let sent = messages([Message::user("x"), Message::calls(calls), Message::results(results)]);
    let field = |turn: usize, name: &str| -> Vec<String> {
        let blocks = sent[turn]["content"].as_array().unwrap().iter();
        blocks.map(|block| block[name].as_str().unwrap().to_owned()).collect()
    };
    let used = field(1, "id");
    assert_eq!(used, field(2, "tool_use_id"));
    assert_eq!((used[0].as_str(), used[6].as_str()), ("esc-functions-2epay-3a0", "toolu_01-A"));
    let legal = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
    assert!(used.iter().all(|id| !id.is_empty() && id.chars().all(legal)), "{used:?}");
    let different: std::collections::HashSet<_> = used.iter().collect();
    assert_eq!(different.len(), ids.len(), "{used:?}");
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

fn with(effort: ReasoningEffort, max_tokens: u64) -> ModelSettings {
    ModelSettings {
        effort: Some(effort),
        max_tokens: Some(max_tokens),
        temperature: Some(0.3),
        top_p: Some(0.9),
        ..ModelSettings::default()
    }
}

#[test]
fn effort_becomes_thinking_as_the_model_wants_it() {
    let adaptive = AnthropicMessages::default();
    let budget = AnthropicMessages { thinking: Thinking::Budget, ..AnthropicMessages::default() };
    for (wire, effort, max, thinking, word) in [
        (
            &adaptive,
            ReasoningEffort::Minimal,
            9000,
            json!({"type": "adaptive", "display": "summarized"}),
            json!("low"),
        ),
        (
            &adaptive,
            ReasoningEffort::High,
            9000,
            json!({"type": "adaptive", "display": "summarized"}),
            json!("high"),
        ),
        (
            &budget,
            ReasoningEffort::Minimal,
            10_000,
            json!({"type": "enabled", "budget_tokens": 1024}),
            Value::Null,
        ),
        (
            &budget,
            ReasoningEffort::Medium,
            10_000,
            json!({"type": "enabled", "budget_tokens": 5000}),
            Value::Null,
        ),
        (
            &budget,
            ReasoningEffort::High,
            10_000,
            json!({"type": "enabled", "budget_tokens": 8000}),
            Value::Null,
        ),
        (&budget, ReasoningEffort::High, 1000, Value::Null, Value::Null),
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
    let mut request = test_request();
    request.settings = with(ReasoningEffort::High, 9000);
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
            request.settings.effort = Some(ReasoningEffort::High);
            request.tools = vec![tool()];
            change(request);
        });
        body.get("thinking").is_some()
    };
    assert!(thinking(&|_| {}));
    assert!(!thinking(&|request| request.tool_choice = ToolChoice::Required));
    assert!(!thinking(&|request| request.tool_choice = ToolChoice::Tool("f".into())));
    let call = ToolCall::new("c", "f", &json!({}));
    let round = |parts: Vec<ContentPart>| {
        let mut parts = parts;
        parts.push(ContentPart::ToolCall(call.clone()));
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
        request.settings.effort = Some(ReasoningEffort::Low);
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

#[test]
fn the_catalog_says_how_a_model_thinks() {
    assert_eq!(AnthropicMessages::for_model("claude-haiku-4-5").thinking, Thinking::Budget);
    assert_eq!(AnthropicMessages::for_model("claude-of-tomorrow").thinking, Thinking::Adaptive);
}
