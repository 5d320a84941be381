//! Making a conversation fit, killed anywhere: the next worker has the old conversation or the new one, and never a mix.

use std::sync::atomic::{AtomicBool, Ordering};

use provost_testkit::{FakeProvider, Reply};
use serde_json::{Value, json};

use crate::harness::{Harness, in_session};

/// Tool calls before the answer.
const CALLS: usize = 6;
/// The model of the summaries says this.
const NOTES: &str = "NOTES of what was done";

/// Calls a tool with a long result again and again, then answers; also writes the notes. Where a conversation stands it sees
/// by the last call in it, which is never summarised away. The first request for notes may get no answer.
async fn provider(silent: bool) -> FakeProvider {
    let silent = AtomicBool::new(silent);
    FakeProvider::answering(move |request| {
        let body = request.json();
        if is_summary(&body) {
            let silent = silent.swap(false, Ordering::SeqCst);
            return if silent { Reply::never_respond() } else { Reply::text(NOTES) };
        }
        match ids(&body, "assistant").last().map_or(0, |last| last + 1) {
            next if next < CALLS => {
                let key = format!("{next}-{}", "long ".repeat(600));
                Reply::call(format!("call_{next}"), "keyed", &json!({ "key": key }))
            }
            _ => Reply::text("done"),
        }
    })
    .await
}

fn is_summary(body: &Value) -> bool {
    body["messages"][0]["content"].to_string().contains("You keep the notes")
}

/// The numbers of the calls, or of the results, of a request.
fn ids(body: &Value, role: &str) -> Vec<usize> {
    let mut ids = Vec::new();
    for message in body["messages"].as_array().unwrap() {
        let calls = message["tool_calls"].as_array().into_iter().flatten().map(|call| &call["id"]);
        let id = (message["role"] == "tool").then_some(&message["tool_call_id"]);
        let found: Vec<&Value> =
            if role == "tool" { id.into_iter().collect() } else { calls.collect() };
        ids.extend(
            found.iter().filter_map(|id| id.as_str()?.strip_prefix("call_")?.parse::<usize>().ok()),
        );
    }
    ids
}

async fn killed(place: &str) {
    let harness =
        Harness::with(provider(place == "the request").await, json!({"context_tokens": 6000}))
            .await;
    let run = harness.accept(in_session("s", "go")).await.run;
    if place == "the request" {
        let worker = harness.worker().await;
        let mut requests = 1;
        while !harness.provider.bodies().iter().any(is_summary) {
            harness.provider.wait_for_requests(requests).await;
            requests += 1;
        }
        worker.kill().await.unwrap();
    } else {
        harness.worker_dies_at(place).await;
    }
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(run).await, "done", "{place}");
    let again = harness.accept(in_session("s", "and again")).await.run;
    assert_eq!(harness.answer(again).await, "done", "{place}");
    let bodies = harness.provider.bodies();
    let mut fitted = 0;
    for body in bodies.iter().filter(|body| !is_summary(body)) {
        let (calls, results) = (ids(body, "assistant"), ids(body, "tool"));
        assert_eq!(calls, results, "{place}: each call with its result");
        let is_new = body["messages"].to_string().contains(NOTES);
        fitted += usize::from(is_new);
        let whole: Vec<usize> = (0..calls.len()).collect();
        if is_new {
            let rest: Vec<usize> = (calls[0]..calls[0] + calls.len()).collect();
            assert!(calls[0] > 0 && calls == rest, "{place}: the notes and all since, {calls:?}");
        } else {
            assert_eq!(calls, whole, "{place}: the whole conversation");
        }
    }
    assert!(fitted >= 2, "{place}: it was never made to fit");
    for key in harness.effect_server.keys() {
        assert_eq!(harness.effect_server.effects(&key), 1, "{place}");
    }
}

#[tokio::test]
async fn g20_compaction_killed_anywhere_leaves_the_old_conversation_or_the_new_one() {
    let places =
        ["compaction.before_begin", "compaction.begun", "the request", "compaction.fitted"];
    for place in places {
        killed(place).await;
    }
}
