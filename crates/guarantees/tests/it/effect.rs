//! Tool calls that a kill cuts off: what happens next depends on what a repeat would do, and on nothing else.

use provost_core::RunId;
use provost_core::lifecycle::RunPhase;
use provost_core::recovery::OutcomeCode;
use provost_testkit::EffectKind;
use serde_json::{Value, json};

use crate::harness::{Harness, LONG};
use crate::plan;

const CLASSES: [&str; 5] = ["pure", "idempotent", "keyed", "provable", "opaque"];

/// What the model was told about calls, in the last request: `call id: text`.
fn results(harness: &Harness) -> Vec<(String, String)> {
    let bodies = harness.provider.bodies();
    let messages = bodies.last().unwrap()["messages"].as_array().unwrap().clone();
    let tool = |message: &&Value| message["role"] == "tool";
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let result = |message: &Value| (text(&message["tool_call_id"]), text(&message["content"]));
    messages.iter().filter(tool).map(result).collect()
}

/// A run whose worker was killed after the effect of its only call, and before that was written down.
async fn killed_after_the_effect(harness: &Harness, class: &str) -> RunId {
    let run = harness.say(&format!("do {class}:a; say done")).await;
    let path = match class {
        "pure" => EffectKind::Pure,
        "idempotent" => EffectKind::Idempotent,
        "keyed" => EffectKind::Keyed,
        "provable" => EffectKind::Provable,
        _ => EffectKind::Opaque,
    };
    harness.effect_server.pause_responses(path);
    let worker = harness.worker().await;
    harness.effect_server.wait_for_calls(1).await;
    worker.kill().await.unwrap();
    harness.effect_server.resume_responses();
    run
}

#[tokio::test]
async fn g13_a_kill_before_the_call_is_written_down_means_that_it_was_not_made() {
    for class in CLASSES {
        let harness = Harness::new().await;
        let run = harness.say(&format!("do {class}:a; say done")).await;
        harness.worker_dies_at("tool.before_begin").await;
        assert_eq!(harness.effect_server.calls("a"), 0, "{class}");
        let _worker = harness.worker().await;
        assert_eq!(harness.answer(run).await, "done");
        assert_eq!(harness.effect_server.calls("a"), 1, "{class} runs once");
    }
}

#[tokio::test]
async fn g14_a_kill_before_the_dispatch_leaves_one_call_or_an_opaque_question() {
    for class in CLASSES {
        let harness = Harness::new().await;
        let run = harness.say(&format!("do {class}:a; say done")).await;
        harness.worker_dies_at("tool.begun").await;
        assert_eq!(harness.effect_server.calls("a"), 0, "{class}");
        let _worker = harness.worker().await;
        assert_eq!(harness.answer(run).await, "done");
        if class == "opaque" {
            assert_eq!(harness.effect_server.calls("a"), 0, "nobody knows that it was not made");
            assert!(results(&harness)[0].1.contains("unknown"), "{:?}", results(&harness));
        } else {
            assert_eq!(harness.effect_server.calls("a"), 1, "{class} runs once");
        }
    }
}

#[tokio::test]
async fn g15_a_pure_idempotent_or_keyed_call_is_made_again_with_one_effect() {
    for class in ["pure", "idempotent", "keyed"] {
        let harness = Harness::new().await;
        let run = killed_after_the_effect(&harness, class).await;
        let _worker = harness.worker().await;
        assert_eq!(harness.answer(run).await, "done");
        let log = harness.effect_server.log();
        assert_eq!(log.len(), 2, "{class}");
        assert_eq!(log[0].idempotency_key, log[1].idempotency_key, "{class}: the same effect key");
        assert_eq!(log[0].arguments, log[1].arguments, "{class}: the same arguments");
        assert_eq!(harness.effect_server.effects("a"), u64::from(class != "pure"), "{class}");
    }
}

#[tokio::test]
async fn g15_a_provable_call_is_asked_about_and_its_result_recovered() {
    let harness = Harness::new().await;
    let run = killed_after_the_effect(&harness, "provable").await;
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(run).await, "done");
    assert_eq!((harness.effect_server.calls("a"), harness.effect_server.effects("a")), (1, 1));
    assert!(results(&harness)[0].1.contains(r#""receipt":1"#), "{:?}", results(&harness));
}

#[tokio::test]
async fn g15_a_provable_call_of_which_nothing_is_known_counts_as_opaque() {
    let harness = Harness::new().await;
    let run = killed_after_the_effect(&harness, "provable").await;
    let key = harness.effect_server.log()[0].idempotency_key.clone().unwrap();
    harness.effect_server.set_uncertain(&key);
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(run).await, "done");
    assert_eq!((harness.effect_server.calls("a"), harness.effect_server.effects("a")), (1, 1));
    assert!(results(&harness)[0].1.contains("unknown"), "{:?}", results(&harness));
}

#[tokio::test]
async fn g15_an_opaque_call_is_never_repeated_and_the_turn_may_only_look() {
    let harness = Harness::new().await;
    harness.effect_server.pause_responses(EffectKind::Opaque);
    let run = harness.say("do opaque:a; keyed:b, pure:c; opaque:a; say done").await;
    let worker = harness.worker().await;
    harness.effect_server.wait_for_calls(1).await;
    worker.kill().await.unwrap();
    harness.effect_server.resume_responses();
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(run).await, "done");
    assert_eq!((harness.effect_server.calls("a"), harness.effect_server.effects("a")), (1, 1));
    assert_eq!(
        (harness.effect_server.calls("b"), harness.effect_server.calls("c")),
        (0, 1),
        "it may only look"
    );
    let results = results(&harness);
    assert_eq!(results.len(), 4, "{results:?}");
    assert!(results[0].1.contains("unknown"), "{results:?}");
}

#[tokio::test]
async fn g15_a_transactional_effect_is_in_the_commit_of_its_step() {
    // The fifth write of this run is the one that records the result.
    for place in [
        "tool.before_begin=kill",
        "tool.begun=kill",
        "tool.finished=kill",
        "step.before=kill@5",
        "step.after=kill@5",
        "model.begun=kill@2",
    ] {
        let harness = Harness::new().await;
        let run = harness.say("do transactional:a; say done").await;
        harness.worker_dies_with(&[], place).await;
        let done = harness.rows("idem WHERE scope = 'effect'").await;
        assert_eq!(done, i64::from(place.starts_with("model")), "{place}");
        let _worker = harness.worker().await;
        assert_eq!(harness.answer(run).await, "done");
        assert_eq!(harness.rows("idem WHERE scope = 'effect'").await, 1, "{place}");
    }
}

#[tokio::test]
async fn g15_an_opaque_call_can_end_the_run_instead() {
    let harness = Harness::new().await;
    let run = killed_after_the_effect(&harness, "opaque").await;
    let _worker = harness.worker_with(&["--on-unknown", "fail"], "").await;
    let row = harness.wait(run).await;
    assert_eq!(
        (row.status.as_str(), row.outcome_code.map(OutcomeCode::as_str)),
        ("error", Some("tool_error"))
    );
    assert_eq!((harness.effect_server.calls("a"), harness.provider.request_count()), (1, 1));
    harness.assert_history(&[run]).await;
}

#[tokio::test]
async fn g15_a_person_can_be_asked_about_an_opaque_call() {
    for (decision, calls) in [("approve", 2), ("leave it", 1)] {
        let harness = Harness::new().await;
        let run = killed_after_the_effect(&harness, "opaque").await;
        let _worker = harness.worker_with(&["--on-unknown", "park"], "").await;
        harness.until(run, |row| row.phase == RunPhase::Parked).await;
        assert_eq!(harness.effect_server.calls("a"), 1, "nothing happens before the answer");
        let approval = harness.question(run).await;
        let answered = harness.once(&["answer", &approval, decision], "").await.unwrap();
        assert_eq!(answered["counted"], true);
        assert_eq!(harness.answer(run).await, "done");
        assert_eq!(harness.effect_server.calls("a"), calls, "{decision}");
    }
}

#[tokio::test]
async fn g17_a_kill_in_the_middle_of_a_batch_keeps_what_is_done() {
    let harness = Harness::with(plan::provider().await, json!({"parallel_tools": 1})).await;
    harness.effect_server.pause_responses(EffectKind::Idempotent);
    let run = harness.say("do keyed:a, provable:b, idempotent:c, opaque:d, pure:e; say done").await;
    let worker = harness.worker().await;
    harness.effect_server.wait_for_calls(3).await;
    worker.kill().await.unwrap();
    harness.effect_server.resume_responses();
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(run).await, "done");
    let calls = ["a", "b", "c", "d", "e"].map(|key| harness.effect_server.calls(key));
    assert_eq!(calls, [1, 1, 2, 1, 1]);
    let effects = ["a", "b", "c", "d", "e"].map(|key| harness.effect_server.effects(key));
    assert_eq!(effects, [1, 1, 1, 1, 0]);
    let ids: Vec<String> = results(&harness).into_iter().map(|(id, _)| id).collect();
    let expected: Vec<String> = ["a", "b", "c", "d", "e"]
        .iter()
        .enumerate()
        .map(|(n, key)| format!("call_0_{n}_{key}"))
        .collect();
    assert_eq!(ids, expected, "each call has one result, in the order of the calls");
    assert_eq!(harness.count(run, "tool_finished").await, 5);
}

#[tokio::test]
async fn g17_a_batch_that_runs_at_once_ends_each_call_once() {
    let harness = Harness::new().await;
    harness.effect_server.pause_responses(EffectKind::Opaque);
    harness.effect_server.pause_responses(EffectKind::Keyed);
    let run = harness.say("do keyed:a, provable:b, idempotent:c, opaque:d, pure:e; say done").await;
    let worker = harness.worker().await;
    harness.effect_server.wait_for_calls(5).await;
    worker.wait_for_lines("tool_finished", 3, LONG).await.unwrap();
    worker.kill().await.unwrap();
    harness.effect_server.resume_responses();
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(run).await, "done");
    let calls = ["a", "b", "c", "d", "e"].map(|key| harness.effect_server.calls(key));
    assert_eq!(calls, [2, 1, 1, 1, 1]);
    let effects = ["a", "b", "c", "d", "e"].map(|key| harness.effect_server.effects(key));
    assert_eq!(effects, [1, 1, 1, 1, 0]);
    assert_eq!(results(&harness).len(), 5);
}

/// The calls of a batch begin in one commit only if the writer is not quicker. Where it is, a kill can find the opaque call
/// begun and the one beside it not: that one is the rest of the turn, which may only look.
#[tokio::test]
async fn g17_what_had_not_begun_beside_a_lost_opaque_call_is_not_run() {
    let harness = Harness::new().await;
    let run = harness.say("do opaque:a, keyed:b, pure:c; say done").await;
    let rule = format!("tool.before_begin=pause:{}@2", harness.gate("never").display());
    let worker = harness.worker_until(&rule).await;
    // Lines of the journal are written while the worker stands still before the second call.
    let begun = async {
        while !harness.steps(run).await.iter().any(|step| step.effect_key.is_some()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(LONG, begun).await.expect("the first call begins");
    worker.kill().await.unwrap();
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(run).await, "done");
    assert_eq!(["a", "b", "c"].map(|key| harness.effect_server.calls(key)), [0, 0, 1]);
    let results = results(&harness);
    assert!(results[0].1.contains("unknown"), "{results:?}");
    assert!(results[1].1.contains("was not run"), "{results:?}");
    assert!(harness.was_refused(run, "call_0_1_b").await);
    assert!(!harness.was_refused(run, "call_0_0_a").await);
    assert!(!harness.was_refused(run, "call_0_2_c").await);
}
