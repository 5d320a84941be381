//! The stored form of each kind of event: the exact text, and the same event when it is read.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use super::*;
use crate::StopReason;

/// One line of the reference.
#[derive(Deserialize)]
struct Example<'a> {
    kind: &'a str,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// The part of the reference about durable events.
fn reference() -> &'static str {
    let page = include_str!("../../../../../docs/reference/events.md");
    let (_, section) = page.split_once("\n## Durable events\n").unwrap();
    section.split("\n## ").next().unwrap()
}

fn examples() -> Vec<Example<'static>> {
    let lines = reference().lines().filter(|line| line.starts_with("{\"kind\":"));
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn declared() -> BTreeSet<&'static str> {
    DurableEventKind::ALL.iter().map(|kind| kind.as_str()).collect()
}

#[test]
fn each_example_is_read_and_written_as_the_same_text() {
    for Example { kind, data } in examples() {
        let event = DurableEvent::parse(kind, data.get()).unwrap();
        assert!(!matches!(event, DurableEvent::Unknown { .. }), "{kind}");
        assert_eq!(event.kind(), kind);
        assert_eq!(event.body().unwrap(), data.get(), "{kind}");
    }
}

#[test]
fn each_kind_has_an_example() {
    let shown: BTreeSet<&str> = examples().iter().map(|example| example.kind).collect();
    assert_eq!(shown, declared());
}

#[test]
fn a_kind_of_a_newer_version_keeps_its_name_and_its_body() {
    let event = DurableEvent::parse("graph_joined", r#"{"node": 1}"#).unwrap();
    assert_eq!((event.kind(), event.body().unwrap().as_str()), ("graph_joined", r#"{"node": 1}"#));
    assert_eq!((event.reason(), event.ended_turn()), (None, None));
    assert_eq!(DurableEventKind::from_name("graph_joined"), None);
}

#[test]
fn a_body_that_does_not_fit_its_kind_is_an_error_with_the_kind() {
    let error = DurableEvent::parse("turn_finished", r#"{"turn":"x"}"#).unwrap_err();
    assert!(error.to_string().starts_with("the body of a `turn_finished` event: "), "{error}");
}

#[test]
fn a_turn_without_usage_is_read() {
    let event = DurableEvent::parse("turn_finished", r#"{"turn":1,"stop":"end_turn"}"#).unwrap();
    assert_eq!(event.ended_turn(), Some(1));
}

#[test]
fn the_kinds_that_end_a_run_are_those_of_the_terminal_states() {
    for status in RunStatus::ALL {
        let kind = DurableEventKind::of_end(*status);
        assert_eq!(kind.is_some(), status.is_terminal(), "{status}");
        assert_eq!(kind.and_then(DurableEventKind::end_status), kind.map(|_| *status));
        if let Some(kind) = kind {
            let (status, error) = (*status, None);
            let ended = RunEnded { code: None, detail: None, result: None, status, error };
            assert_eq!(DurableEvent::end(ended).kind(), kind.as_str());
        }
    }
    let ends = DurableEventKind::ALL.iter().filter(|kind| kind.is_terminal()).count();
    assert_eq!(ends, 4);
}

#[test]
fn the_reason_of_an_event_is_its_detail_before_its_code() {
    let reason = |kind: &str, body: &str| {
        DurableEvent::parse(kind, body).unwrap().reason().map(str::to_owned)
    };
    let parked = r#"{"for":"operator","code":"crash_loop","detail":"again"}"#;
    assert_eq!(reason("parked", parked).as_deref(), Some("again"));
    assert_eq!(reason("parked", r#"{"for":"child"}"#).as_deref(), Some("child"));
    assert_eq!(reason("cancel_requested", r#"{"code":"deadline"}"#).as_deref(), Some("deadline"));
    assert_eq!(reason("stopped", r#"{"reason":"end_turn"}"#).as_deref(), Some("end_turn"));
    assert_eq!(reason("resumed", r#"{"by":"me"}"#), None);
}

#[test]
fn the_names_of_stop_reasons_are_those_that_are_stored() {
    for name in ["end_turn", "max_tokens", "tool_use", "limit", "unknown"] {
        let stop: StopReason = serde_json::from_value(json!(name)).unwrap();
        assert_eq!(stop.as_str(), name);
    }
}

#[test]
fn a_stored_result_keeps_its_text() {
    let body = r#"{"code":null,"detail":null,"result":{"b" : 1e2, "a":[]},"status":"ok"}"#;
    assert_eq!(DurableEvent::parse("finished", body).unwrap().body().unwrap(), body);
}

/// Names in backquotes.
fn quoted(text: &str) -> BTreeSet<&str> {
    text.split('`').skip(1).step_by(2).collect()
}

#[test]
fn the_reference_lists_each_kind_with_its_fields() {
    let version = format!("version of the stored bodies is {DURABLE_EVENT_VERSION};");
    assert!(reference().contains(&version), "{version}");
    let mut rows = BTreeMap::new();
    for row in reference().lines().filter(|line| line.starts_with("| `")) {
        let columns: Vec<&str> = row.split('|').collect();
        rows.extend(quoted(columns[1]).into_iter().map(|kind| (kind, quoted(columns[3]))));
    }
    assert_eq!(rows.keys().copied().collect::<BTreeSet<_>>(), declared());
    for Example { kind, data } in examples() {
        let body: Map<String, Value> = serde_json::from_str(data.get()).unwrap();
        for field in body.keys() {
            assert!(rows[kind].contains(field.as_str()), "the row of {kind} lacks `{field}`");
        }
    }
}
