use serde_json::json;

use super::*;
use crate::{Document, ProviderData, ToolResultPart};

fn round_trip(message: &Message) {
    let text = serde_json::to_string(message).unwrap();
    assert_eq!(&serde_json::from_str::<Message>(&text).unwrap(), message, "{text}");
}

#[test]
fn s210_accessors_return_only_their_kind_and_append_extends_or_creates() {
    let call = ToolCall::new("c1", "add", &json!({"a": 1}));
    let mut message = Message::calls([call.clone()]).at(Timestamp::from_millis(7));
    assert_eq!((message.role, message.created_at.as_millis()), (Role::Assistant, 7));
    assert_eq!(message.first_text(), "");
    message.append_text("one");
    message.append_text(" two");
    message.parts.push(ContentPart::text("three"));
    message.parts.push(ContentPart::Image(Image::url("https://example.test/a.png")));
    message.parts.push(ContentPart::Reasoning(Reasoning { text: "hm".into(), opaque: None }));
    assert_eq!(message.first_text(), "one two");
    assert_eq!(message.text(), "one twothree");
    assert_eq!(message.tool_calls().collect::<Vec<_>>(), [&call]);
    assert_eq!(message.reasoning().count(), 1);
    assert_eq!(message.images().count(), 1);
    assert_eq!(message.tool_results().count(), 0);
    assert_eq!(Message::results([ToolResult::text(&call, "3")]).tool_results().count(), 1);
    assert_eq!(Message::user("hi").role, Role::User);
    assert_eq!(Message::summary("so far").role, Role::Summary);
}

#[test]
fn s211_every_part_round_trips_through_json() {
    let call = ToolCall {
        opaque: Some(ProviderData {
            provider: "p".into(),
            kind: "k".into(),
            data: "\u{0}é\"".into(),
        }),
        ..ToolCall::new("c1", "add", &json!({"a": [1, null, "x"]}))
    };
    let mut result = ToolResult::error(&call, "no");
    result.metadata = Some(json!({"ui": true}));
    result.parts.push(ToolResultPart::Image(Image::bytes("image/png", [1, 2, 3])));
    result.parts.push(ToolResultPart::File(Document::bytes(
        "a.bin",
        "application/octet-stream",
        [0; 9],
    )));
    let mut message = Message::new(
        Role::Assistant,
        vec![
            ContentPart::text("täxt"),
            ContentPart::Image(Image::url("https://example.test/a.png")),
            ContentPart::Document(Document::bytes("a.pdf", "application/pdf", b"%PDF")),
            ContentPart::Reasoning(Reasoning { text: "hm".into(), opaque: call.opaque.clone() }),
            ContentPart::ToolCall(call),
            ContentPart::ToolResult(result),
        ],
        Timestamp::from_millis(1_700_000_000_123),
    );
    message.model = Some("m-1".into());
    round_trip(&message);
    round_trip(&Message::user(""));
}

#[test]
fn s211_an_unknown_part_survives_a_round_trip_and_is_skipped_by_accessors() {
    let stored = json!({
        "role": "assistant",
        "parts": [{"type": "hologram", "data": {"z": 1, "a": 2}}, {"type": "text", "text": "hi"}],
        "created_at": 5,
    });
    let message: Message = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(message.text(), "hi");
    assert_eq!(serde_json::to_string(&message).unwrap(), stored.to_string());
}

#[test]
fn an_opaque_block_keeps_its_bytes() {
    let data = "{\"b\": 1,  \"a\" :2}\n";
    let opaque = ProviderData { provider: "x".into(), kind: "encrypted".into(), data: data.into() };
    let part = ContentPart::Reasoning(Reasoning { text: String::new(), opaque: Some(opaque) });
    let text = serde_json::to_string(&part).unwrap();
    match serde_json::from_str::<ContentPart>(&text).unwrap() {
        ContentPart::Reasoning(reasoning) => assert_eq!(reasoning.opaque.unwrap().data, data),
        other => panic!("{other:?}"),
    }
}

#[test]
fn arguments_that_are_not_json_stay_as_they_were() {
    let call = ToolCall { arguments: "{\"a\": ".into(), ..ToolCall::new("c", "t", &json!({})) };
    assert!(call.parse_arguments().is_err());
    round_trip(&Message::calls([call]));
    let empty = ToolCall { arguments: "  ".into(), ..ToolCall::new("c", "t", &json!({})) };
    assert_eq!(empty.parse_arguments().unwrap(), json!({}));
}
