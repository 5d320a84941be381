//! Runs below runs: no twins, and the parent learns of each end once.

use provost_core::RunId;
use provost_core::command::TaskRequest;
use provost_testkit::EffectPath;

use crate::stage::{Stage, in_session};

/// The one child of a run.
async fn child_of(stage: &Stage, parent: RunId) -> RunId {
    let runs = stage.all_runs().await;
    let children: Vec<_> = runs.iter().filter(|run| run.parent_run_id == Some(parent)).collect();
    assert_eq!(children.len(), 1, "{children:?}");
    children[0].id
}

/// How often the last request tells what the child said.
fn told(stage: &Stage) -> usize {
    let bodies = stage.provider.bodies();
    let parents = bodies.iter().rev().find(|body| body.to_string().contains("say parent"));
    let messages = parents.unwrap()["messages"].as_array().unwrap().clone();
    let result = |text: &str| text.contains("child c") && !text.contains("do provable");
    messages.iter().filter(|message| result(&message["content"].to_string())).count()
}

async fn parent(stage: &Stage, plan: &str) -> RunId {
    stage.accept(TaskRequest { ..in_session("s", plan) }).await.run
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
        let stage = Stage::new().await;
        let run = parent(&stage, "do spawn:c; await:c; say parent").await;
        stage.worker_dies_with(&[], place).await;
        let _worker = stage.worker().await;
        assert_eq!(stage.answer(run).await, "parent", "{place}");
        let child = child_of(&stage, run).await;
        assert_eq!(stage.answer(child).await, "child c", "{place}");
        assert_eq!((stage.rows("run").await, stage.ledger.effects("c")), (2, 1), "{place}");
        assert_eq!(told(&stage), 1, "{place}");
    }
}

#[tokio::test]
async fn g51_a_child_that_ends_while_nobody_works_on_its_parent_is_told_of_once() {
    let stage = Stage::new().await;
    stage.ledger.hold(EffectPath::Provable);
    let run = parent(&stage, "do spawn:c; await:c; say parent").await;
    let worker = stage.worker().await;
    stage.ledger.wait_for_calls(1).await;
    stage.until(run, |row| row.phase == "parked").await;
    assert_eq!(stage.row(run).await.lease_owner, None);
    worker.kill().await.unwrap();
    stage.ledger.release();
    // The transaction that ends the child tells its parent, or neither happens.
    stage.worker_dies_with(&[], "run.ended=kill").await;
    assert_eq!(stage.row(run).await.phase, "parked");
    let _worker = stage.worker().await;
    assert_eq!(stage.answer(run).await, "parent");
    assert_eq!(stage.answer(child_of(&stage, run).await).await, "child c");
    assert_eq!((told(&stage), stage.ledger.effects("c")), (1, 1));
}

#[tokio::test]
async fn g51_a_child_that_ends_while_its_parent_is_busy_is_told_of_once() {
    let stage = Stage::new().await;
    stage.ledger.hold(EffectPath::Keyed);
    let run = parent(&stage, "do spawn:c; keyed:a; say parent").await;
    let worker = stage.worker().await;
    stage.until(run, |row| row.next_step > 5).await;
    let child = child_of(&stage, run).await;
    assert_eq!(stage.answer(child).await, "child c");
    worker.kill().await.unwrap();
    stage.ledger.release();
    let _worker = stage.worker().await;
    assert_eq!(stage.answer(run).await, "parent");
    assert_eq!((told(&stage), stage.rows("input WHERE kind = 'child_result'").await), (1, 1));
    assert_eq!(stage.rows("run").await, 2);
}

#[tokio::test]
async fn g51_a_child_that_ends_while_its_parent_waits_for_a_person_is_told_of_once() {
    let stage = Stage::new().await;
    let run = parent(&stage, "do spawn:c; ask:a; say parent").await;
    let worker = stage.worker().await;
    stage.until(run, |row| row.phase == "parked").await;
    let child = child_of(&stage, run).await;
    assert_eq!(stage.answer(child).await, "child c");
    worker.kill().await.unwrap();
    let _worker = stage.worker().await;
    let question = stage.question(run).await;
    stage.once(&["answer", &question, "approve"], "").await.unwrap();
    assert_eq!(stage.answer(run).await, "parent");
    assert_eq!((told(&stage), stage.rows("input WHERE kind = 'child_result'").await), (1, 1));
}
