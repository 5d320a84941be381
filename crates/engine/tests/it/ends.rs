//! How runs end: once, with one last event, and for good.

use std::sync::atomic::Ordering;
use std::time::Duration;

use provost_core::ApprovalDecision;
use provost_core::command::TaskRequest;
use provost_engine::Cancelled;
use provost_model::{self as scripted, ModelErrorClass};
use provost_store::table::work::run::RunRow;
use serde_json::json;

use crate::house::{House, LEASE, frozen};
use crate::stage::command;

const LAST: [&str; 4] = ["finished", "failed", "timed_out", "cancelled"];

async fn check(house: &House, row: &RunRow) {
    let events = house.events(row.id).await;
    let ends = events.iter().filter(|event| LAST.contains(&event.kind.as_str())).count();
    assert_eq!(ends, 1, "{events:?}");
    assert!(LAST.contains(&events.last().unwrap().kind.as_str()), "{events:?}");
    let seqs: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(seqs, (1..=seqs.len() as u64).collect::<Vec<_>>(), "g43");
}

#[tokio::test(flavor = "multi_thread")]
async fn g46_every_end_is_one_event_and_the_last_one() {
    let house = House::answering(|request, _| {
        match request.messages.last().map(|message| message.text()).as_deref() {
            Some("fail") => scripted::fail(ModelErrorClass::InvalidRequest, "no"),
            Some("wait") => scripted::text("never").hang(),
            _ => scripted::text("hello"),
        }
    })
    .await;
    let _worker = house.engine.start().await.unwrap();
    let ok = house.say("ok", "hi").await;
    let failed = house.say("failed", "fail").await;
    let cancelled = house.say("cancelled", "wait").await;
    let deadline = Some(house.clock.now().after(Duration::from_secs(60)));
    let late = house.accept(TaskRequest { deadline, ..command("late", "wait") }).await;
    while house.rooms.model_calls() < 4 {
        tokio::task::yield_now().await;
    }
    house.engine.runs().cancel(&house.namespace, cancelled.run).await.unwrap();
    house.clock.advance(Duration::from_secs(60));
    for (accepted, status) in
        [(&ok, "ok"), (&failed, "error"), (&cancelled, "cancelled"), (&late, "timeout")]
    {
        let row = house.ended(accepted.run).await;
        assert_eq!(row.status, status);
        check(&house, &row).await;
        let waits = (0..3).map(|_| house.engine.runs().wait(&house.namespace, accepted.run));
        for waited in futures::future::join_all(waits).await {
            assert_eq!(waited.unwrap(), row, "everybody hears the same");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn g47_nothing_changes_an_end() {
    let house = House::new(vec![scripted::call("risky", json!({}))]).await;
    let _worker = house.engine.start().await.unwrap();
    let deadline = Some(house.clock.now().after(Duration::from_secs(60)));
    let accepted = house.accept(TaskRequest { deadline, ..command("chat", "go") }).await;
    house.parked(accepted.run).await;
    let question = house.questions().await.remove(0);
    house.engine.tasks().cancel(&house.namespace, accepted.task).await.unwrap();
    let row = house.ended(accepted.run).await;
    let events = house.events(accepted.run).await;
    let (namespace, engine) = (&house.namespace, &house.engine);
    engine
        .approvals()
        .answer(namespace, question.id, ApprovalDecision::Approve, "me")
        .await
        .unwrap();
    let cancelled = engine.runs().cancel(namespace, accepted.run).await.unwrap();
    assert_eq!(cancelled, Cancelled::AlreadyTerminal);
    engine.runs().resume(namespace, accepted.run, "me").await.unwrap_err();
    house.clock.advance(Duration::from_secs(7200));
    engine.maintenance().reconcile().await.unwrap();
    let other = house.say("other", "go").await;
    house.parked(other.run).await;
    assert_eq!(house.run(accepted.run).await, row);
    assert_eq!(house.events(accepted.run).await, events);
}

#[tokio::test(flavor = "multi_thread")]
async fn g47_a_late_attempt_does_not_change_an_end() {
    let house = House::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let lost = house.node(frozen()).start().await.unwrap();
    let accepted = house.say("chat", "go").await;
    let gate = house.rooms.gate("gate_pure");
    gate.entered().await;
    let _other = house.engine.start().await.unwrap();
    house.meddle("UPDATE run SET cancel_requested = 1").await;
    house.clock.advance(LEASE);
    let row = house.ended(accepted.run).await;
    assert_eq!(row.status, "cancelled");
    gate.open(1);
    lost.stop(Duration::from_secs(30)).await;
    assert_eq!(house.run(accepted.run).await, row);
    check(&house, &row).await;
    assert!(!house.rooms.broken.load(Ordering::SeqCst));
}
