//! Model calls and records that a kill cuts off.

use crate::harness::{Harness, LONG};
use provost_core::lifecycle::StepKind;
use provost_store::query;

#[tokio::test]
async fn g16_what_was_recorded_is_there_for_whoever_comes_back_and_is_not_done_again() {
    let harness = Harness::new().await;
    let run = harness.say("do opaque:a; silent say done").await;
    let worker = harness.worker().await;
    // The second request is sent after the record of the call is on disk.
    harness.provider.wait_for_requests(2).await;
    worker.kill().await.unwrap();
    let seen = harness.events(run).await;
    let cursor = seen.iter().find(|event| event.kind == "tool_started").unwrap().seq;
    let missed = query::run::events(harness.engine.store(), &harness.namespace, run, cursor, 1)
        .await
        .unwrap();
    assert_eq!((missed[0].seq, missed[0].kind.as_str()), (cursor + 1, "tool_finished"));
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(run).await, "done");
    assert_eq!(harness.effect_server.calls("a"), 1);
    let later = harness.events(run).await;
    assert_eq!(&later[..seen.len()], &seen[..], "what was read once is never changed");
}

#[tokio::test]
async fn g18_a_kill_in_the_middle_of_an_answer_costs_one_more_call_and_no_more() {
    let harness = Harness::new().await;
    let run = harness.say("do stall say the whole answer").await;
    let worker = harness.worker().await;
    worker.wait_for_line("draft half", LONG).await.unwrap();
    worker.kill().await.unwrap();
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(run).await, "the whole answer");
    assert_eq!(harness.provider.request_count(), 2);
    let kinds = harness.kinds(run).await;
    let at = |kind: &str| kinds.iter().position(|found| found == kind);
    assert!(at("draft_discarded") < at("turn_finished"), "{kinds:?}");
    assert_eq!(harness.count(run, "draft_discarded").await, 1);
    assert_eq!(harness.count(run, "turn_finished").await, 1);
    assert_eq!(
        harness.rows("session_entry WHERE gone IS NULL").await,
        2,
        "one question, one answer"
    );
    let call =
        harness.steps(run).await.into_iter().find(|step| step.kind == StepKind::ModelCall).unwrap();
    assert_eq!((call.tries, call.state.as_str()), (2, "committed"), "both tries are on the record");
}

#[tokio::test]
async fn g19_an_answer_that_is_recorded_is_not_asked_for_again() {
    let harness = Harness::new().await;
    let run = harness.say("do keyed:a; say done").await;
    let gate = harness.gate("never");
    let worker = harness.worker_until(&format!("tool.before_begin=pause:{}", gate.display())).await;
    worker.wait_for_line("turn_finished", LONG).await.unwrap();
    worker.kill().await.unwrap();
    assert_eq!((harness.provider.request_count(), harness.effect_server.calls("a")), (1, 0));
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(run).await, "done");
    assert_eq!((harness.provider.request_count(), harness.effect_server.calls("a")), (2, 1));
}

#[tokio::test]
async fn g19_a_run_killed_at_every_one_of_its_writes_does_everything_once() {
    let mut kills = 0;
    for place in ["step.before", "step.after"] {
        for hit in 1.. {
            let harness = Harness::new().await;
            let run = harness.say("do keyed:a, provable:b; idempotent:c; say done").await;
            let first = harness.worker_until(&format!("{place}=kill@{hit}")).await;
            let ended = tokio::select! {
                ended = first.wait(LONG) => ended.is_ok(),
                _ = harness.wait(run) => false,
            };
            if !ended {
                break;
            }
            kills += 1;
            let _worker = harness.worker().await;
            assert_eq!(harness.answer(run).await, "done", "{place}@{hit}");
            let effects = ["a", "b", "c"].map(|key| harness.effect_server.effects(key));
            assert_eq!(effects, [1, 1, 1], "{place}@{hit}");
            assert!(
                harness.provider.request_count() <= 4,
                "{place}@{hit}: one call may be repeated"
            );
            assert_eq!(harness.rows("session_entry WHERE gone IS NULL").await, 6, "{place}@{hit}");
        }
    }
    assert!(kills >= 20, "only {kills} writes were found");
}

#[tokio::test]
async fn g21_a_large_result_is_there_as_a_whole_or_not_at_all() {
    // The fifth write of this run is the one that brings five megabytes.
    for place in [
        "tool.finished=kill",
        "step.before=kill@5",
        "step.after=kill@5",
        "attempt.before_settle=kill",
    ] {
        let harness = Harness::new().await;
        let run = harness.say("do big:a; say done").await;
        harness.worker_dies_with(&[], place).await;
        let step = harness
            .steps(run)
            .await
            .into_iter()
            .find(|step| step.kind == StepKind::ToolCall)
            .unwrap();
        if place.starts_with("attempt") {
            assert_eq!((step.state.as_str(), step.blob.is_some()), ("committed", true), "{place}");
        } else {
            assert_eq!((step.state.as_str(), step.blob), ("started", None), "{place}");
        }
        let _worker = harness.worker().await;
        assert_eq!(harness.answer(run).await, "done");
        assert_eq!(harness.effect_server.effects("a"), 1);
        let size: i64 = harness.one("SELECT MAX(size) FROM blob").await;
        assert!(size > 5 * 1024 * 1024, "{place}: {size}");
        assert!(harness.rows("blob").await <= 2, "{place}: at most one orphan");
    }
}
