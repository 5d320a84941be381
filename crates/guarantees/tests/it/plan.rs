//! The model of the tests: what it does is written in the message that it answers.
//!
//! `do keyed:a, opaque:b; pure:c; say done` calls two tools, then one, then says `done`. A turn can begin with a word for
//! what happens the first time it is asked for: `stall` (half an answer, then nothing) or `silent` (nothing at all).
//! Further requests for the same turn are answered. `spawn:c` starts a child that does the provable thing `c`, and `await:c`
//! waits for all children of which the conversation tells.

use std::collections::HashSet;

use parking_lot::Mutex;
use provost_core::Usage;
use provost_testkit::{FakeProvider, Recorded, Reply};
use serde_json::{Value, json};

/// Starts the model.
pub(crate) async fn provider() -> FakeProvider {
    let asked = Mutex::new(HashSet::new());
    FakeProvider::answering(move |request| {
        let messages = messages(request);
        let Some((plan, turn)) = place(&messages) else { return Reply::text("there is no plan") };
        let first = asked.lock().insert((plan.clone(), turn));
        reply(&plan, turn, first, &children(&messages))
    })
    .await
}

/// Role and text of each message of a request.
pub(crate) fn messages(request: &Recorded) -> Vec<(String, String)> {
    let body = request.json();
    let messages = body["messages"].as_array().cloned().unwrap_or_default();
    messages.iter().map(|message| (text(&message["role"]), text(&message["content"]))).collect()
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts.iter().map(|part| text(&part["text"])).collect(),
        _ => String::new(),
    }
}

/// The last plan that was said, and how many answers were given since.
fn place(messages: &[(String, String)]) -> Option<(String, usize)> {
    let is_plan = |(role, text): &(String, String)| role == "user" && text.starts_with("do ");
    let at = messages.iter().rposition(is_plan)?;
    let answers = messages[at..].iter().filter(|(role, _)| role == "assistant").count();
    Some((messages[at].1.clone(), answers))
}

fn reply(plan: &str, turn: usize, first: bool, children: &[String]) -> Reply {
    let turns = plan.strip_prefix("do ").unwrap_or(plan).split(';');
    let Some(words) = turns.map(str::trim).nth(turn) else {
        return used(Reply::text("the plan is over"));
    };
    if let Some(rest) = words.strip_prefix("stall ") {
        let reply = act(rest, turn, children);
        return if first {
            Reply::new().deltas(["half", " an", " answer"]).hang_midway()
        } else {
            reply
        };
    }
    if let Some(rest) = words.strip_prefix("silent ") {
        return if first { Reply::never_respond() } else { act(rest, turn, children) };
    }
    act(words, turn, children)
}

fn act(words: &str, turn: usize, children: &[String]) -> Reply {
    if let Some(said) = words.strip_prefix("say ") {
        return used(Reply::text(said));
    }
    let calls = words.split(',').filter_map(|call| call.trim().split_once(':'));
    used(calls.enumerate().fold(Reply::new(), |reply, (n, (tool, key))| {
        let (tool, arguments) = match tool {
            "spawn" => {
                ("spawn_task", json!({"message": format!("do provable:{key}; say child {key}")}))
            }
            "await" => ("await_tasks", json!({ "runs": children })),
            tool => (tool, json!({ "key": key })),
        };
        reply.and_call(format!("call_{turn}_{n}_{key}"), tool, &arguments)
    }))
}

/// The ids of runs that tools have told of.
fn children(messages: &[(String, String)]) -> Vec<String> {
    let told = messages.iter().filter(|(role, _)| role == "tool");
    let results = told.filter_map(|(_, text)| serde_json::from_str::<Value>(text).ok());
    results.filter_map(|result| Some(result["run"].as_str()?.to_owned())).collect()
}

fn used(reply: Reply) -> Reply {
    reply.usage(Usage { input: 100, output: 10, ..Usage::default() })
}

#[test]
fn the_plan_is_followed() {
    let said = |role: &str, text: &str| (role.to_owned(), text.to_owned());
    let plan = "do keyed:a, opaque:b; say done";
    let mut messages =
        vec![said("user", "do say old"), said("assistant", "old"), said("user", plan)];
    assert_eq!(place(&messages), Some((plan.to_owned(), 0)));
    messages.extend([said("assistant", ""), said("tool", "x"), said("user", "by the way")]);
    assert_eq!(place(&messages), Some((plan.to_owned(), 1)));
}
