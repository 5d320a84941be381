//! A command is accepted once, carried out once, and its answer stays.

use provost_core::command::TaskRequest;
use provost_core::lifecycle::RequestError;
use provost_engine::EngineError;
use provost_model as scripted;
use serde_json::json;

use crate::harness::{Harness, command, text};

fn three_steps(request: &provost_model::ChatRequest, _call: usize) -> provost_model::ScriptedTurn {
    let results = request.messages.iter().rev().take_while(|m| m.role != provost_core::Role::User);
    match results.flat_map(|message| message.tool_results()).count() {
        0 => scripted::calls([("pure", json!({"n": 1})), ("opaque", json!({"n": 2}))]),
        2 => scripted::call("keyed", json!({"n": 3})),
        _ => scripted::text("done"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_is_answered() {
    let harness = Harness::new(three_steps).await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "do it").await;
    let run = harness.wait(accepted.run).await;
    assert_eq!((run.status.as_str(), text(&run).as_str()), ("ok", "done"));
    assert_eq!(harness.effects.of("pure"), 1);
    assert_eq!(harness.effects.of("opaque"), 1);
    assert_eq!(harness.effects.of("keyed"), 1);
    assert_eq!(harness.effects.model_calls(), 3);
    let kinds = harness.kinds(accepted.run).await;
    assert_eq!(kinds.first().map(String::as_str), Some("accepted"));
    assert_eq!(kinds.last().map(String::as_str), Some("finished"));
    let seqs: Vec<u64> = harness.events(accepted.run).await.iter().map(|event| event.seq).collect();
    let expected: Vec<u64> = (1..=seqs.len() as u64).collect();
    assert_eq!(seqs, expected, "g43: numbers without a gap");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_goes_on() {
    let harness = Harness::new(|request, _| {
        let said = request.messages.iter().filter(|m| m.role == provost_core::Role::User).count();
        scripted::text(format!("answer {said}"))
    })
    .await;
    let _worker = harness.worker().await;
    for turn in 1..=3 {
        let accepted = harness.say("chat", &format!("question {turn}")).await;
        let run = harness.wait(accepted.run).await;
        assert_eq!(text(&run), format!("answer {turn}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g01_the_same_command_is_accepted_once() {
    let harness = Harness::new(three_steps).await;
    let keyed =
        || TaskRequest { idempotency_key: Some("k1".to_owned()), ..command("chat", "do it") };
    let first = harness.engine.submit(&harness.namespace, keyed()).await.unwrap();
    let again = harness.engine.submit(&harness.namespace, keyed()).await.unwrap();
    assert!(!first.deduped && again.deduped);
    assert_eq!(first.task, again.task);
    let other =
        TaskRequest { idempotency_key: Some("k1".to_owned()), ..command("chat", "do that") };
    let refused = harness.engine.submit(&harness.namespace, other).await.unwrap_err();
    assert!(
        matches!(refused, EngineError::Request(RequestError::IdempotencyMismatch { .. })),
        "{refused}"
    );
}
