//! The stored form of a run and of its journal entries. A change here breaks stored runs: raise [`RUN_VERSION`] or keep
//! the form.

use provost_core::{
    AgentUsage, ApprovalDecision, ApprovalRequest, Env, LimitKind, LimitReached, Limits, Message,
    ToolCall, ToolResult, Usage,
};
use provost_model::ModelResponse;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{JournalEntry, Run};

/// Reading and writing gives the same JSON.
fn check<T: Serialize + DeserializeOwned>(stored: Value) {
    let read: T = serde_json::from_value(stored.clone()).unwrap();
    assert_eq!(serde_json::to_value(&read).unwrap(), stored);
}

fn call() -> ToolCall {
    ToolCall::new("c1", "look", &json!({}))
}

fn request(env: &Env) -> ApprovalRequest {
    ApprovalRequest {
        id: env.id(),
        kind: provost_core::ApprovalRequestKind::Call,
        call: call(),
        hint: None,
        payload: None,
        policy_revision: None,
        approvers: None,
    }
}

fn reached() -> Value {
    let limit = LimitKind::Turns;
    json!(LimitReached { limit, allowed: "1".to_owned(), used: "1".to_owned() })
}

fn used() -> Value {
    let usage = Usage::new(1, 1);
    json!(AgentUsage { agent: "a/b".to_owned(), turns: 1, usage, cost: None, unpriced_calls: 0 })
}

#[test]
fn every_journal_entry_is_stored_as_it_was() {
    let env = Env::simulated(1);
    let request = request(&env);
    let response = json!(ModelResponse::text("hi"));
    let result = json!(ToolResult::error(&call(), "no"));
    let message = json!(Message::user("hi"));
    let approve = json!(ApprovalDecision::Approve);
    let usage = json!(Usage::default());
    let child: provost_core::RunId = env.id();
    let entries = json!([
        {"feed": "model_answered", "response": response, "cost": null, "at": 1},
        {"feed": "tool_finished", "result": result, "at": 1},
        {"feed": "tool_finished", "result": result, "fault": true, "at": 1},
        {"feed": "approval_needed", "effective": call(), "request": request},
        {"feed": "approval_decided", "id": request.id, "decision": approve},
        {"feed": "user_said", "message": message},
        {"feed": "context_changed", "messages": [{"kept": {"from": 0, "count": 2}}, {"new": message}]},
        {"feed": "context_fitted", "messages": [], "session": {"pop": 2, "add": [message]},
            "usage": usage, "cost": null, "unmetered_calls": 0},
        {"feed": "limit_found", "at": 1},
        {"feed": "limit_decided", "decision": "stop", "at": 1},
        {"feed": "limit_decided", "decision": {"extend": {"message": null}}, "at": 1},
        {"feed": "limit_decided", "decision": {"extend_without_calls": {"result": null, "message": "x"}}, "at": 1},
        {"feed": "limit_decided", "decision": {"final_answer": {"message": null}}, "at": 1},
        {"feed": "output_checked", "problem": "no JSON", "at": 1},
        {"feed": "saved"},
        {"feed": "handed_off", "hand_off": {"from": "a", "to": "b"}, "transfers": ["a"],
            "messages": [], "usage": usage, "cost": null, "unmetered_calls": 0, "at": 1},
        {"feed": "child_used", "child": child, "used": [used()]},
        {"feed": "children_used", "children": [[child, [used()]]]},
        {"feed": "noted", "state": {"a": 1}, "shared": [{"name": "user:a", "value": 1}]},
        {"feed": "suspended", "state": {}, "at": 1},
        {"feed": "resumed", "at": 1},
        {"feed": "stopped", "partial": null, "cost": null, "reason": "cancelled", "at": 1},
        {"feed": "stopped", "partial": response, "cost": null, "reason": "limit", "limit": reached(), "at": 1},
    ]);
    entries.as_array().unwrap().iter().cloned().for_each(check::<JournalEntry>);
}

/// Returns a stored run in this phase.
fn run(phase: Value) -> Value {
    let env = Env::simulated(1);
    let (id, child): (provost_core::RunId, provost_core::RunId) = (env.id(), env.id());
    let message = json!(Message::user("hi"));
    json!({
        "version": 1, "id": id, "agent": "a", "started_at": 1,
        "config": {
            "limits": Limits::default().turns(3), "at_limit": "final_answer", "execute_tools": true,
            "output": {"tool": "final_answer"}, "output_retries": 2, "depth": 0,
            "hand_offs_max": 10, "transfers": ["b"],
        },
        "context": [message], "produced": [message], "unsaved": {"pop": 1, "add": [message]},
        "mirrors_session": true, "suspended_at": 2, "unmetered": false, "phase": phase,
        "after_results": [message], "usage": Usage::new(3, 2), "cost": null, "unpriced_calls": 1,
        "turns": 1, "rounds": 1, "tool_calls": 2,
        "baseline": {"unpriced_calls": 0, "rounds": 0, "tool_calls": 0, "usage": Usage::default(), "cost": null, "at": 1},
        "argument_faults": {"look": 1}, "output_faults": 0, "state": {"a": 1},
        "last": {"text": "t", "reasoning": "", "stop": "tool_use", "response_id": null},
        "last_word": reached(), "below": {child.to_string(): [used()]},
        "handed_to": ["b"], "transfers": ["a"],
    })
}

#[test]
fn a_run_is_stored_as_it_was_in_every_phase() {
    let env = Env::simulated(1);
    let request = request(&env);
    let answer = json!({"request": request, "decision": ApprovalDecision::Approve});
    let state = json!({
        "call": call(), "effective": call(), "open": request, "answers": [answer], "result": null,
    });
    let phases = json!([
        {"model": {"without_tools": true}},
        {"tools": {"calls": [state]}},
        {"hand_off": {"to": "b", "reason": null}},
        {"at_limit": {"question": {"reached": reached(), "calls": [call()], "rounds": 1}}},
        {"output": {"raw": "{}", "call_id": null, "calls": [call()]}},
        {"done": {"stop": "end_turn", "limit": null, "pending_calls": [], "output": "x", "at": 3}},
    ]);
    phases.as_array().unwrap().iter().for_each(|phase| check::<Run>(run(phase.clone())));
}

#[test]
fn the_start_of_a_run_is_stored_as_it_was() {
    let message = json!(Message::user("hi"));
    let result = json!(ToolResult::error(&call(), "no"));
    for with in [
        json!({"with": "message", "message": message}),
        json!({"with": "results", "results": [result]}),
        json!({"with": "nothing"}),
    ] {
        let config = run(json!({"model": {"without_tools": false}}))["config"].clone();
        check::<super::RunStarted>(json!({
            "agent": "a", "config": config, "mirrors_session": false, "state": {"a": 1},
            "shared": [{"name": "user:a", "value": 1}], "with": with, "at": 1,
        }));
    }
}
