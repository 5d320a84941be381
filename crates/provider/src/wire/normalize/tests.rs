use std::sync::Arc;

use provost_core::{
    ContentPart, Message, ProviderData, Reasoning, ToolCall, ToolDefinition, ToolResult,
};
use provost_model::{MISSING_RESULT, ModelEvent, ToolChoice};
use serde_json::json;

use super::*;

fn call(id: &str, name: &str) -> ToolCall {
    ToolCall::new(id, name, &json!({}))
}

fn normalized(messages: Vec<Message>, rules: &MessageRules) -> Vec<Arc<Message>> {
    super::normalize_request(ChatRequest::new(messages), rules).0.messages
}

/// Returns the calls and results in order, as text.
fn shown(messages: &[Arc<Message>]) -> Vec<String> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let shown = parts.map(|part| match part {
        ContentPart::ToolCall(call) => format!("call {}", call.id),
        ContentPart::ToolResult(result) => {
            format!("result {} {}", result.call_id, result.to_text())
        }
        ContentPart::Text { text } => format!("text {text}"),
        ContentPart::Reasoning(reasoning) => format!("thought {}", reasoning.text),
        _ => "other".to_owned(),
    });
    shown.collect()
}

#[test]
fn a_conversation_in_order_is_not_copied() {
    let (a, b) = (call("a", "f"), call("b", "f"));
    let messages = vec![
        Message::user("hi"),
        Message::calls([a.clone(), b.clone()]),
        Message::results([ToolResult::text(&b, "2")]),
        Message::results([ToolResult::text(&a, "1")]),
        Message::assistant("done"),
    ];
    let request = ChatRequest::new(messages);
    let before: Vec<_> = request.messages.clone();
    let (after, tool_names) = super::normalize_request(request, &MessageRules::default());
    assert!(before.iter().zip(&after.messages).all(|(a, b)| Arc::ptr_eq(a, b)));
    assert_eq!(tool_names, ToolNameMap::default());
}

#[test]
fn a_missing_result_is_marked_and_one_without_a_call_goes() {
    let (a, b) = (call("a", "f"), call("b", "f"));
    let settled = normalized(
        vec![
            Message::results([ToolResult::text(&b, "too early")]),
            Message::calls([a, b.clone()]),
            Message::results([ToolResult::text(&b, "2"), ToolResult::text(&call("x", "f"), "?")]),
            Message::user("and?"),
        ],
        &MessageRules::default(),
    );
    let missing = format!("result a {MISSING_RESULT}");
    assert_eq!(shown(&settled), ["call a", "call b", &missing, "result b 2", "text and?"]);
    let results: Vec<_> = settled[1].tool_results().collect();
    assert!(results[0].is_error && !results[1].is_error);
}

#[test]
fn a_late_result_goes_back_to_its_call() {
    let a = call("a", "f");
    let settled = normalized(
        vec![
            Message::calls([a.clone()]),
            Message::user("wait"),
            Message::results([ToolResult::text(&a, "late")]),
            Message::assistant("ok"),
        ],
        &MessageRules::default(),
    );
    assert_eq!(shown(&settled), ["call a", "result a late", "text wait", "text ok"]);
}

#[test]
fn doubled_and_missing_ids_become_unique_and_their_results_follow() {
    let (same, empty) = (call("a", "f"), call("", "g"));
    let messages = vec![
        Message::calls([same.clone(), same.clone(), empty.clone()]),
        Message::results([
            ToolResult::text(&same, "1"),
            ToolResult::text(&same, "2"),
            ToolResult::text(&empty, "3"),
        ]),
        Message::calls([same.clone()]),
        Message::results([ToolResult::text(&same, "4")]),
    ];
    let settled = normalized(messages.clone(), &MessageRules::default());
    let ids: Vec<&str> =
        settled.iter().flat_map(|message| message.tool_calls()).map(|call| &*call.id).collect();
    let results: Vec<(&str, String)> = settled
        .iter()
        .flat_map(|message| message.tool_results())
        .map(|result| (&*result.call_id, result.to_text()))
        .collect();
    assert_eq!(ids[0], "a");
    let unique: std::collections::HashSet<_> = ids.iter().collect();
    assert_eq!(unique.len(), 4, "{ids:?}");
    let expected: Vec<_> =
        ids.iter().copied().zip(["1", "2", "3", "4"].map(str::to_owned)).collect();
    assert_eq!(results, expected);
    let grown = messages.into_iter().chain([Message::user("more")]).collect();
    assert_eq!(
        normalized(grown, &MessageRules::default())[..4],
        settled[..],
        "what was sent stays the same"
    );
}

#[test]
fn ids_take_the_form_that_the_vendor_wants() {
    let rule = CallIdRule { charset: Charset::Alphanumeric, chars_min: 9, chars_max: 9 };
    let rules = MessageRules { call_ids: rule, ..MessageRules::default() };
    let a = call("toolu_01ABCDEFGHIJKLMNOPQRSTUVWXYZ", "f");
    let settled = normalized(
        vec![Message::calls([a.clone()]), Message::results([ToolResult::text(&a, "1")])],
        &rules,
    );
    let id = &settled[0].tool_calls().next().unwrap().id;
    assert!(rule.allows(id), "{id}");
    assert_eq!(&settled[1].tool_results().next().unwrap().call_id, id);
    let fine = call("abcDEF123", "f");
    let kept = normalized(
        vec![Message::calls([fine.clone()]), Message::results([ToolResult::text(&fine, "1")])],
        &rules,
    );
    assert_eq!(kept[0].tool_calls().next().unwrap().id, "abcDEF123");
}

#[test]
fn what_only_another_provider_understands_goes() {
    let thought = |provider: &str| {
        ContentPart::Reasoning(Reasoning {
            text: provider.to_owned(),
            opaque: Some(ProviderData {
                provider: provider.to_owned(),
                kind: "signature".to_owned(),
                data: "x".to_owned(),
            }),
        })
    };
    let mut message = Message::assistant("hi");
    message.parts.insert(0, thought("gemini"));
    message.parts.insert(1, thought("anthropic"));
    let rules = MessageRules {
        reasoning: ReasoningReplay::own_only("anthropic"),
        ..MessageRules::default()
    };
    assert_eq!(shown(&normalized(vec![message.clone()], &rules)), ["thought anthropic", "text hi"]);
    let all = normalized(vec![message], &MessageRules::default());
    assert_eq!(shown(&all), ["thought gemini", "thought anthropic", "text hi"]);
}

fn tool(name: &str) -> Arc<ToolDefinition> {
    let def = ToolDefinition {
        name: name.to_owned(),
        description: String::new(),
        input_schema: json!({"type": "object"}),
    };
    Arc::new(def)
}

#[test]
fn names_are_changed_one_to_one_and_given_back() {
    let long = "x".repeat(80);
    let names = ["memory.read", "memory_read", "memory/read", "größe", "", &long, "plain"];
    let mut request = ChatRequest::new([
        Message::calls([call("1", "memory.read"), call("2", "plain"), call("3", "gone.tool")]),
        Message::results([
            ToolResult::text(&call("1", "memory.read"), "1"),
            ToolResult::text(&call("2", "plain"), "2"),
            ToolResult::text(&call("3", "gone.tool"), "3"),
        ]),
    ]);
    request.tools = names.iter().map(|name| tool(name)).collect();
    request.tool_choice = ToolChoice::Tool("memory.read".to_owned());
    let rule = ToolNameRule::default();
    let (normalized, tool_names) = super::normalize_request(request, &MessageRules::default());
    let sent: Vec<&str> = normalized.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert!(sent.iter().all(|name| rule.allows(name)), "{sent:?}");
    let unique: std::collections::HashSet<_> = sent.iter().collect();
    assert_eq!(unique.len(), names.len(), "{sent:?}");
    assert_eq!((sent[1], sent[6]), ("memory_read", "plain"), "a good name stays");
    for (sent, name) in sent.iter().zip(names) {
        let mut event =
            ModelEvent::ToolCallStart { index: 0, id: String::new(), name: (*sent).to_owned() };
        tool_names.restore(&mut event);
        let back = ModelEvent::ToolCallStart { index: 0, id: String::new(), name: name.to_owned() };
        assert_eq!(event, back);
    }
    assert_eq!(normalized.tool_choice, ToolChoice::Tool(sent[0].to_owned()));
    let used: Vec<&str> = normalized.messages[0].tool_calls().map(|call| &*call.name).collect();
    assert_eq!(used, [sent[0], "plain", "gone_tool"]);
    let results: Vec<&str> =
        normalized.messages[1].tool_results().map(|result| &*result.name).collect();
    assert_eq!(results, used);
}

#[test]
fn a_vendor_may_want_a_letter_first() {
    let rule = ToolNameRule { letter_first: true, charset: Charset::Dotted, chars_max: 64 };
    let mut request = ChatRequest::new([Message::user("hi")]);
    request.tools = vec![tool("3d.render"), tool("a.b")];
    let (normalized, _) = super::normalize_request(
        request,
        &MessageRules { tool_names: rule, ..MessageRules::default() },
    );
    let sent: Vec<&str> = normalized.tools.iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(sent, ["_3d.render", "a.b"]);
}
