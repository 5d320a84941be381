//! Runs below runs: no twins, and the parent learns of each end once.

use provost_core::RunId;
use provost_core::command::TaskRequest;
use provost_core::lifecycle::RunPhase;
use provost_testkit::EffectKind;

use crate::harness::{Harness, in_session};

/// The one child of a run.
async fn child_of(harness: &Harness, parent: RunId) -> RunId {
    let runs = harness.all_runs().await;
    let children: Vec<_> = runs.iter().filter(|run| run.parent_run_id == Some(parent)).collect();
    assert_eq!(children.len(), 1, "{children:?}");
    children[0].id
}

/// How often the last request tells what the child said.
fn told(harness: &Harness) -> usize {
    let bodies = harness.provider.bodies();
    let parents = bodies.iter().rev().find(|body| body.to_string().contains("say parent"));
    let messages = parents.unwrap()["messages"].as_array().unwrap().clone();
    let result = |text: &str| text.contains("child c") && !text.contains("do provable");
    messages.iter().filter(|message| result(&message["content"].to_string())).count()
}

async fn parent(harness: &Harness, plan: &str) -> RunId {
    harness.accept(TaskRequest { ..in_session("s", plan) }).await.run
}

#[tokio::test]
async fn g52_a_spawn_killed_anywhere_makes_one_child() {
    for place in [
        "tool.before_begin=kill",
        "tool.begun=kill",
        "child.planned=kill",
        "tool.finished=kill",
        "step.before=kill@5",
        "step.after=kill@5",
        "model.before_begin=kill@2",
    ] {
        let harness = Harness::new().await;
        let run = parent(&harness, "do spawn:c; await:c; say parent").await;
        harness.worker_dies_with(&[], place).await;
        let _worker = harness.worker().await;
        assert_eq!(harness.answer(run).await, "parent", "{place}");
        let child = child_of(&harness, run).await;
        assert_eq!(harness.answer(child).await, "child c", "{place}");
        assert_eq!(
            (harness.rows("run").await, harness.effect_server.effects("c")),
            (2, 1),
            "{place}"
        );
        assert_eq!(told(&harness), 1, "{place}");
    }
}

#[tokio::test]
async fn g51_a_child_that_ends_while_nobody_works_on_its_parent_is_told_of_once() {
    let harness = Harness::new().await;
    harness.effect_server.pause_responses(EffectKind::Provable);
    let run = parent(&harness, "do spawn:c; await:c; say parent").await;
    let worker = harness.worker().await;
    harness.effect_server.wait_for_calls(1).await;
    harness.until(run, |row| row.phase == RunPhase::Parked).await;
    assert_eq!(harness.row(run).await.lease_owner, None);
    worker.kill().await.unwrap();
    harness.effect_server.resume_responses();
    // The transaction that ends the child tells its parent, or neither happens.
    harness.worker_dies_with(&[], "run.ended=kill").await;
    assert_eq!(harness.row(run).await.phase, RunPhase::Parked);
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(run).await, "parent");
    assert_eq!(harness.answer(child_of(&harness, run).await).await, "child c");
    assert_eq!((told(&harness), harness.effect_server.effects("c")), (1, 1));
}

#[tokio::test]
async fn g51_a_child_that_ends_while_its_parent_is_busy_is_told_of_once() {
    let harness = Harness::new().await;
    harness.effect_server.pause_responses(EffectKind::Keyed);
    let run = parent(&harness, "do spawn:c; keyed:a; say parent").await;
    let worker = harness.worker().await;
    harness.until(run, |row| row.next_step > 5).await;
    let child = child_of(&harness, run).await;
    assert_eq!(harness.answer(child).await, "child c");
    worker.kill().await.unwrap();
    harness.effect_server.resume_responses();
    let _worker = harness.worker().await;
    assert_eq!(harness.answer(run).await, "parent");
    assert_eq!((told(&harness), harness.rows("input WHERE kind = 'child_result'").await), (1, 1));
    assert_eq!(harness.rows("run").await, 2);
}

#[tokio::test]
async fn g51_a_child_that_ends_while_its_parent_waits_for_a_person_is_told_of_once() {
    let harness = Harness::new().await;
    let run = parent(&harness, "do spawn:c; ask:a; say parent").await;
    let worker = harness.worker().await;
    harness.until(run, |row| row.phase == RunPhase::Parked).await;
    let child = child_of(&harness, run).await;
    assert_eq!(harness.answer(child).await, "child c");
    worker.kill().await.unwrap();
    let _worker = harness.worker().await;
    let question = harness.question(run).await;
    harness.once(&["answer", &question, "approve"], "").await.unwrap();
    assert_eq!(harness.answer(run).await, "parent");
    assert_eq!((told(&harness), harness.rows("input WHERE kind = 'child_result'").await), (1, 1));
}
