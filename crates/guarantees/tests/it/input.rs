//! What is said to a run that is at work: delivered once, in order, whoever dies.

use provost_core::command::TaskRequest;
use provost_core::scheduling::InputMode;
use provost_testkit::EffectKind;

use crate::harness::{Harness, LONG, in_session};
use crate::plan::messages;

fn said(mode: InputMode, text: &str) -> TaskRequest {
    TaskRequest { queue_mode: Some(mode), ..in_session("s", text) }
}

/// What people said, in the last request.
fn user_messages(harness: &Harness) -> Vec<String> {
    let requests = harness.provider.requests();
    let messages = messages(requests.last().unwrap()).into_iter();
    messages.filter(|(role, _)| role == "user").map(|(_, text)| text).collect()
}

#[tokio::test]
async fn g23_an_input_that_was_stored_is_delivered_once_and_in_order() {
    let harness = Harness::new().await;
    harness.effect_server.pause_responses(EffectKind::Keyed);
    let run = harness.accept(in_session("s", "do keyed:a; say done")).await.run;
    let worker = harness.worker().await;
    harness.effect_server.wait_for_calls(1).await;
    for text in ["first", "second"] {
        let accepted = harness.accept(said(InputMode::Steer, text)).await;
        assert_eq!(accepted.run, run, "it goes into the run that is at work");
    }
    worker.kill().await.unwrap();
    harness.effect_server.resume_responses();
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(run).await, "done");
    assert_eq!(user_messages(&harness), ["do keyed:a; say done", "first", "second"]);
    assert_eq!(harness.rows("input WHERE state = 'consumed'").await, 3);
    assert_eq!((harness.effect_server.effects("a"), harness.rows("run").await), (1, 1));
}

#[tokio::test]
async fn g23_a_follow_up_is_answered_after_a_kill_and_only_once() {
    let harness = Harness::new().await;
    harness.effect_server.pause_responses(EffectKind::Keyed);
    let first = harness.accept(said(InputMode::Followup, "do keyed:a; say one")).await;
    let worker = harness.worker().await;
    harness.effect_server.wait_for_calls(1).await;
    harness.accept(said(InputMode::Followup, "do keyed:b; say two")).await;
    harness.accept(said(InputMode::Followup, "do keyed:c; say three")).await;
    worker.kill().await.unwrap();
    harness.effect_server.resume_responses();
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(first.run).await, "one");
    let runs = harness.runs_of(first.task, 3).await;
    for (run, said) in runs.iter().zip(["one", "two", "three"]) {
        assert_eq!(harness.answer(*run).await, said);
    }
    assert_eq!(["a", "b", "c"].map(|key| harness.effect_server.effects(key)), [1, 1, 1]);
    assert_eq!(harness.rows("run").await, 3);
}

#[tokio::test]
async fn g24_an_input_that_was_read_and_not_answered_is_read_again_once() {
    let harness = Harness::new().await;
    harness.effect_server.pause_responses(EffectKind::Keyed);
    let run = harness.accept(in_session("s", "do keyed:a; silent say done")).await.run;
    let worker = harness.worker().await;
    harness.effect_server.wait_for_calls(1).await;
    harness.accept(said(InputMode::Steer, "by the way")).await;
    harness.looked_around(run).await;
    harness.effect_server.resume_responses();
    harness.provider.wait_for_requests(2).await;
    assert_eq!(user_messages(&harness), ["do keyed:a; silent say done", "by the way"]);
    worker.kill().await.unwrap();
    assert_eq!(harness.rows("input WHERE state = 'claimed'").await, 1, "nobody has answered it");
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(run).await, "done");
    assert_eq!(user_messages(&harness), ["do keyed:a; silent say done", "by the way"]);
    assert_eq!(harness.rows("input WHERE state = 'consumed'").await, 2);
}

#[tokio::test]
async fn g24_a_kill_while_an_input_enters_the_run_loses_nothing() {
    for place in ["input.before_take", "input.taken", "input.heard"] {
        let harness = Harness::new().await;
        harness.effect_server.pause_responses(EffectKind::Keyed);
        let run = harness.accept(in_session("s", "do keyed:a; say done")).await.run;
        let worker = harness.worker_until(&format!("{place}=kill")).await;
        harness.effect_server.wait_for_calls(1).await;
        harness.accept(said(InputMode::Steer, "by the way")).await;
        harness.looked_around(run).await;
        harness.effect_server.resume_responses();
        worker.wait(LONG).await.unwrap();
        let _worker = harness.worker().await;
        assert_eq!(harness.answer(run).await, "done", "{place}");
        assert_eq!(user_messages(&harness), ["do keyed:a; say done", "by the way"], "{place}");
    }
}

#[tokio::test]
async fn g27_an_interrupt_settles_the_old_attempt_before_the_new_one_starts() {
    let harness = Harness::new().await;
    harness.effect_server.pause_responses(EffectKind::Opaque);
    let first = harness.accept(in_session("s", "do opaque:a; say old")).await;
    let _worker = harness.worker().await;
    harness.effect_server.wait_for_calls(1).await;
    let second = harness.accept(said(InputMode::Interrupt, "do say new")).await;
    let row = harness.wait(second.run).await;
    assert_eq!(crate::harness::text(&row), "new");
    harness.effect_server_pauses(0).await;
    harness.effect_server.resume_responses();
    let mut runs = vec![first.run, second.run];
    runs.dedup();
    let mut attempts = Vec::new();
    for run in &runs {
        attempts.extend(harness.attempts(*run).await);
    }
    assert!(attempts.len() >= 2, "{attempts:?}");
    for pair in attempts.windows(2) {
        assert!(pair[0].ended.unwrap() <= pair[1].started, "{attempts:?}");
    }
    harness.wait(first.run).await;
    harness.assert_history(&runs).await;
    assert_eq!(harness.effect_server.calls("a"), 1);
}
