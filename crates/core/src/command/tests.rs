//! What a command may hold, and when two are the same.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::*;
use crate::usage::limits::{
    COMMAND_FIELD_BYTES_MAX, COMMAND_PROMPT_BYTES_MAX, COMMAND_TEXT_BYTES_MAX,
};
use crate::{Document, Image, ToolCall};

fn full() -> Value {
    json!({
        "message": [{"type": "text", "text": "hi"}], "agent": "lead", "hook_id": "h",
        "session_id": "main", "session_key": "agent:lead:main", "deliver": true,
        "best_effort_deliver": true, "timeout_ms": 5000,
        "policy": {"ask": "on-miss"}, "lane": "cron", "extra_system_prompt": "be brief",
        "input_provenance": {"kind": "inter_session", "source": "s", "message_id": "m",
            "channel": "c", "tool_call_id": "t", "correlation_id": "x"},
        "routing": {"to": "1", "reply_to": "2", "channel": "3", "reply_channel": "4",
            "account_id": "5", "reply_account_id": "6", "thread_id": "7", "group_id": "8",
            "group_channel": "9", "group_space": "10"},
        "attachments": [{"type": "document", "source": {"url": "https://a/b"}, "name": "b"}],
        "idempotency_key": "k", "label": "l", "spawned_by": "me", "requested_by": "ada", "queue_mode": "collect",
        "priority": 3, "budget": {"amount": "1.5", "currency": "USD"}, "deadline": 9_000,
        "new_task": true, "delay_ms": 10, "queue_timeout_ms": 20,
        "run_id": "run_01jd0000000000000000000000",
    })
}

fn read(value: Value) -> TaskRequest {
    serde_json::from_value(value).unwrap()
}

#[test]
fn every_field_is_read_and_comes_back() {
    let command = read(full());
    assert_eq!(command.validate(), Ok(()));
    assert_eq!(read(serde_json::to_value(&command).unwrap()), command);
    let written = serde_json::to_value(&command).unwrap();
    assert_eq!(written.as_object().unwrap().len(), full().as_object().unwrap().len());
    assert_eq!(command.timeout(), Some(Duration::from_secs(5)));
    assert_eq!(command.delay(), Duration::from_millis(10));
}

#[test]
fn an_unknown_field_is_refused() {
    let error = serde_json::from_value::<TaskRequest>(json!({"messages": []})).unwrap_err();
    assert!(error.to_string().contains("messages"), "{error}");
}

#[test]
fn a_run_has_ten_minutes_unless_it_says_otherwise() {
    assert_eq!(TaskRequest::text("hi").timeout(), Some(Duration::from_secs(600)));
    let unlimited = TaskRequest { timeout_ms: Some(0), ..TaskRequest::text("hi") };
    assert_eq!(unlimited.timeout(), None);
}

#[test]
fn a_bad_command_is_refused_with_its_place() {
    let command = || TaskRequest::text("hi");
    let call = ContentPart::ToolCall(ToolCall::new("1", "shell", &json!({})));
    let long = "x".repeat(COMMAND_FIELD_BYTES_MAX + 1);
    let routing = RoutingContext { thread_id: Some(long.clone()), ..RoutingContext::default() };
    let provenance = InputProvenance { source: Some(" ".into()), ..InputProvenance::default() };
    let budget = Money::usd((-1).into());
    for (command, path, code) in [
        (TaskRequest::default(), "command.message", "invalid"),
        (TaskRequest::text(" \n"), "command.message", "invalid"),
        (TaskRequest { message: vec![call], ..command() }, "command.message[0]", "invalid"),
        (TaskRequest { agent: Some(String::new()), ..command() }, "command.agent", "invalid"),
        (TaskRequest { agent: Some("a".repeat(65)), ..command() }, "command.agent", "invalid"),
        (TaskRequest { lane: Some(" ".into()), ..command() }, "command.lane", "invalid"),
        (TaskRequest { priority: i32::MIN, ..command() }, "command.priority", "invalid"),
        (TaskRequest { budget: Some(budget), ..command() }, "command.budget", "invalid"),
        (TaskRequest { deliver: true, ..command() }, "command.routing", "invalid"),
        (TaskRequest { message: vec!["x".into(); 65], ..command() }, "command.message", "invalid"),
        (
            TaskRequest { input_provenance: Some(provenance), ..command() },
            "command.input_provenance.source",
            "invalid",
        ),
        (
            TaskRequest { idempotency_key: Some(long), ..command() },
            "command.idempotency_key",
            "payload_too_large",
        ),
        (TaskRequest { routing, ..command() }, "command.routing.thread_id", "payload_too_large"),
        (
            TaskRequest::text("x".repeat(COMMAND_TEXT_BYTES_MAX + 1)),
            "command.message[0]",
            "payload_too_large",
        ),
        (
            TaskRequest {
                extra_system_prompt: Some("x".repeat(COMMAND_PROMPT_BYTES_MAX + 1)),
                ..command()
            },
            "command.extra_system_prompt",
            "payload_too_large",
        ),
    ] {
        let error = command.validate().unwrap_err();
        assert_eq!(error.code(), code, "{error}");
        assert!(error.to_string().starts_with(path), "{error} is not at {path}");
    }
}

#[test]
fn all_parts_together_are_bounded() {
    let big = "x".repeat(1024 * 1024);
    let command = TaskRequest { message: vec![big.into(); 26], ..TaskRequest::default() };
    let error = command.validate().unwrap_err();
    assert_eq!(error.code(), "payload_too_large");
    assert!(error.to_string().starts_with("command has 27262976 bytes, 26214400 are"), "{error}");
}

#[test]
fn an_attachment_may_stand_alone() {
    let document = ContentPart::from(Document::bytes("a.txt", "text/plain", "x"));
    let command = TaskRequest { attachments: vec![document], ..TaskRequest::default() };
    assert_eq!(command.validate(), Ok(()));
    let image = ContentPart::from(Image::url("https://a/b"));
    let command = TaskRequest { message: vec![image], ..TaskRequest::default() };
    assert_eq!(command.validate(), Ok(()));
}

#[test]
fn g03_two_commands_are_the_same_if_all_but_the_key_is() {
    let hash = |value: Value| read(value).body_hash().unwrap();
    let base = hash(full());
    let mut other_key = full();
    other_key["idempotency_key"] = json!("other");
    other_key["requested_by"] = json!("bob");
    assert_eq!(hash(other_key), base);
    let mut hashes = HashSet::from([base]);
    for (field, value) in [
        ("message", json!([{"type": "text", "text": "ho"}])),
        ("agent", json!("other")),
        ("hook_id", json!("g")),
        ("session_id", json!("second")),
        ("session_key", json!("k2")),
        ("deliver", json!(false)),
        ("best_effort_deliver", json!(false)),
        ("timeout_ms", json!(5001)),
        ("policy", json!({"ask": "always"})),
        ("lane", json!("main")),
        ("extra_system_prompt", json!("be long")),
        ("input_provenance", json!({"kind": "external_user"})),
        ("routing", json!({})),
        ("attachments", json!([])),
        ("label", json!("m")),
        ("spawned_by", json!("you")),
        ("queue_mode", json!("steer")),
        ("priority", json!(4)),
        ("budget", json!({"amount": "2", "currency": "USD"})),
        ("deadline", json!(9_001)),
        ("new_task", json!(false)),
        ("delay_ms", json!(11)),
    ] {
        let mut changed = full();
        changed[field] = value;
        assert!(hashes.insert(hash(changed)), "{field} does not count");
    }
    let said = json!({"message": [{"type": "text", "text": "hi"}], "agent": null, "priority": 0});
    assert_eq!(hash(said), TaskRequest::text("hi").body_hash().unwrap(), "a default is the same");
}

#[test]
fn a_command_continues_a_task_only_of_its_own_agent() {
    let command = || TaskRequest { agent: Some("a".into()), ..TaskRequest::text("hi") };
    assert!(command().is_follow_up_of("a", false));
    assert!(TaskRequest::text("hi").is_follow_up_of("a", false), "it names no agent");
    assert!(!command().is_follow_up_of("b", false), "another agent's task");
    assert!(!command().is_follow_up_of("a", true), "put away");
    assert!(!TaskRequest { new_task: true, ..command() }.is_follow_up_of("a", false));
    assert!(!TaskRequest { hook_id: Some("h".into()), ..command() }.is_follow_up_of("a", false));
}

#[test]
fn an_answer_goes_where_the_reply_fields_say() {
    let routing = read(full()).routing;
    let target = routing.reply_target().unwrap();
    assert_eq!((target.channel, target.to), ("4", Some("2")));
    assert_eq!((target.account_id, target.thread_id), (Some("6"), Some("7")));
    let plain = RoutingContext {
        channel: Some("mail".into()),
        to: Some("a".into()),
        ..RoutingContext::default()
    };
    assert_eq!(plain.reply_target().unwrap().to, Some("a"));
    assert_eq!(RoutingContext::default().reply_target(), None);
}

#[test]
fn messages_of_other_threads_are_not_merged() {
    let thread =
        |id: &str| RoutingContext { thread_id: Some(id.into()), ..RoutingContext::default() };
    assert!(thread("1").can_merge(&thread("1")));
    assert!(!thread("1").can_merge(&thread("2")));
    assert!(!thread("1").can_merge(&RoutingContext::default()));
}
