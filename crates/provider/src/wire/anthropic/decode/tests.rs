use provost_core::{ContentPart, StopReason, ToolCall, Usage};
use provost_model::{ModelErrorClass, ModelEvent};
use serde_json::json;

use crate::wire::anthropic::AnthropicMessages;
use crate::wire::anthropic::tests::thought;
use crate::wire::testing::{decode, decode_response};

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
    let answer = decode_response(&AnthropicMessages::default(), &data).unwrap();
    let expected = [
        thought("anthropic", "signature", "hm", "abc="),
        thought("anthropic", "redacted_thinking", "", "zz"),
        ContentPart::text("Hi"),
        ContentPart::ToolCall(ToolCall {
            arguments: "{\"x\":1}".into(),
            ..ToolCall::new("a", "f", &json!({}))
        }),
        ContentPart::ToolCall(ToolCall {
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
        assert_eq!(decode_response(&wire, &[START, &end, STOP]).unwrap().stop, expected);
        assert_eq!(
            decode_response(&wire, &[START, &end]).unwrap().stop,
            expected,
            "the last word may be lost"
        );
    }
    let delta = r#"{"type":"content_block_delta","index":7,"delta":{"type":"input_json_delta","partial_json":"{}"}}"#;
    let missing_tool_name = r#"{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"a","input":{}}}"#;
    let overloaded =
        r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}"#;
    for (data, class) in [
        (vec![START], ModelErrorClass::StreamTruncated),
        (vec![START, STOP], ModelErrorClass::StreamTruncated),
        (vec![START, delta], ModelErrorClass::Malformed),
        (vec![START, missing_tool_name], ModelErrorClass::Malformed),
        (vec![START, "{"], ModelErrorClass::Malformed),
        (vec![START, "[]"], ModelErrorClass::Malformed),
        (vec![START, overloaded], ModelErrorClass::Overloaded),
    ] {
        assert_eq!(decode_response(&wire, &data).unwrap_err().class, class, "{data:?}");
    }
    let (events, _) = decode(&wire, &[START]);
    assert_eq!(
        events,
        [
            ModelEvent::Started { response_id: Some("msg_1".into()), model: Some("m-1".into()) },
            ModelEvent::Usage(Usage { cache_read: 100, cache_write: 5, ..Usage::new(115, 1) }),
        ],
        "a call that breaks off was not free"
    );
}

#[test]
fn counts_are_told_when_they_come_and_only_if_they_do() {
    let wire = AnthropicMessages::default();
    let silent = r#"{"type":"message_start","message":{"id":"msg_1","model":"m-1","content":[]}}"#;
    let end = r#"{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{}}"#;
    let untold = decode_response(&wire, &[silent, end, STOP]).unwrap();
    assert_eq!((untold.usage, untold.usage_known), (Usage::default(), false));
    let told = decode_response(&wire, &[silent, &ending("end_turn"), STOP]).unwrap();
    assert_eq!((told.usage, told.usage_known), (Usage::new(0, 42), true));
    let (events, _) = decode(&wire, &[START, &ending("end_turn"), STOP]);
    let counts: Vec<_> = events
        .iter()
        .filter_map(|event| match event {
            ModelEvent::Usage(usage) => Some((usage.input, usage.output)),
            _ => None,
        })
        .collect();
    assert_eq!(counts, [(115, 1), (115, 42)]);
    assert!(matches!(events.last(), Some(ModelEvent::Stop(StopReason::EndTurn))));
}
