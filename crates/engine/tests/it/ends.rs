//! How runs end: once, with one last event, and for good.

use std::sync::atomic::Ordering;
use std::time::Duration;

use provost_core::ApprovalDecision;
use provost_core::command::TaskRequest;
use provost_core::lifecycle::RunStatus;
use provost_engine::CancelResult;
use provost_model::{self as scripted, ModelErrorClass};
use provost_store::table::work::run::RunRow;
use serde_json::json;

use crate::cluster::{Cluster, LEASE, frozen};
use crate::harness::command;

const LAST: [&str; 4] = ["finished", "failed", "timed_out", "cancelled"];

async fn check(cluster: &Cluster, row: &RunRow) {
    let events = cluster.events(row.id).await;
    let ends = events.iter().filter(|event| LAST.contains(&event.kind.as_str())).count();
    assert_eq!(ends, 1, "{events:?}");
    assert!(LAST.contains(&events.last().unwrap().kind.as_str()), "{events:?}");
    let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "g43");
}

#[tokio::test(flavor = "multi_thread")]
async fn g46_every_end_is_one_event_and_the_last_one() {
    let cluster = Cluster::answering(|request, _| {
        match request.messages.last().map(|message| message.text()).as_deref() {
            Some("fail") => scripted::fail(ModelErrorClass::InvalidRequest, "no"),
            Some("wait") => scripted::text("never").hang(),
            _ => scripted::text("hello"),
        }
    })
    .await;
    let _worker = cluster.engine.start().await.unwrap();
    let ok = cluster.say("ok", "hi").await;
    let failed = cluster.say("failed", "fail").await;
    let cancelled = cluster.say("cancelled", "wait").await;
    let deadline = Some(cluster.clock.now().after(Duration::from_secs(60)));
    let late = cluster.accept(TaskRequest { deadline, ..command("late", "wait") }).await;
    while cluster.rooms.model_calls() < 4 {
        tokio::task::yield_now().await;
    }
    cluster.engine.runs().cancel(&cluster.namespace, cancelled.run).await.unwrap();
    cluster.clock.advance(Duration::from_secs(60));
    for (accepted, status) in
        [(&ok, "ok"), (&failed, "error"), (&cancelled, "cancelled"), (&late, "timeout")]
    {
        let row = cluster.ended(accepted.run).await;
        assert_eq!(row.status.as_str(), status);
        check(&cluster, &row).await;
        let waits = (0..3).map(|_| cluster.engine.runs().wait(&cluster.namespace, accepted.run));
        for waited in futures::future::join_all(waits).await {
            assert_eq!(waited.unwrap(), row, "everybody hears the same");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g47_nothing_changes_an_end() {
    let cluster = Cluster::new(vec![scripted::call("risky", json!({}))]).await;
    let _worker = cluster.engine.start().await.unwrap();
    let deadline = Some(cluster.clock.now().after(Duration::from_secs(60)));
    let accepted = cluster.accept(TaskRequest { deadline, ..command("chat", "go") }).await;
    cluster.parked(accepted.run).await;
    let question = cluster.questions().await.remove(0);
    cluster.engine.tasks().cancel(&cluster.namespace, accepted.task).await.unwrap();
    let row = cluster.ended(accepted.run).await;
    let events = cluster.events(accepted.run).await;
    let (namespace, engine) = (&cluster.namespace, &cluster.engine);
    engine
        .approvals()
        .answer(namespace, question.id, ApprovalDecision::Approve, "me")
        .await
        .unwrap();
    let cancelled = engine.runs().cancel(namespace, accepted.run).await.unwrap();
    assert_eq!(cancelled, CancelResult::AlreadyEnded);
    engine.runs().resume(namespace, accepted.run, "me").await.unwrap_err();
    cluster.clock.advance(Duration::from_secs(7200));
    engine.maintenance().reconcile().await.unwrap();
    let other = cluster.say("other", "go").await;
    cluster.parked(other.run).await;
    assert_eq!(cluster.run(accepted.run).await, row);
    assert_eq!(cluster.events(accepted.run).await, events);
}

#[tokio::test(flavor = "multi_thread")]
async fn g47_a_late_attempt_does_not_change_an_end() {
    let cluster = Cluster::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let lost = cluster.node(frozen()).start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    let _other = cluster.engine.start().await.unwrap();
    cluster.meddle("UPDATE run SET cancel_requested = 1").await;
    cluster.clock.advance(LEASE);
    let row = cluster.ended(accepted.run).await;
    assert_eq!(row.status, RunStatus::Cancelled);
    gate.open(1);
    lost.stop(Duration::from_secs(30)).await;
    assert_eq!(cluster.run(accepted.run).await, row);
    check(&cluster, &row).await;
    assert!(!cluster.rooms.broken.load(Ordering::SeqCst));
}
