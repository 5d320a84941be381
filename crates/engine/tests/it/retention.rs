//! What is over goes after its time; what lives, and what something living needs, stays.

use std::time::Duration;

use provost_core::ApprovalDecision;
use provost_core::command::TaskRequest;
use provost_core::lifecycle::RunStatus;
use provost_engine::{EngineOptions, RetentionPolicy, RetentionReport};
use provost_model::{self as scripted};
use provost_store::query;
use provost_store::table::work::{run, run_event, task};
use serde_json::json;

use crate::cluster::{Cluster, last_result, quick};
use crate::harness::{command, text};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test(flavor = "multi_thread")]
async fn g59_old_runs_go_and_the_conversation_stays() {
    let cluster = Cluster::answering(|request, _| {
        let results = request.messages.iter().flat_map(|message| message.tool_results());
        let seen: Vec<String> = results.map(|result| result.to_text()).collect();
        match request.messages.last().map(|message| message.role) {
            Some(provost_core::Role::User) => scripted::call("pure", json!({})),
            _ => scripted::text(seen.join(" and ")),
        }
    })
    .await;
    let _worker = cluster.engine.start().await.unwrap();
    let fresh = |text: &str| TaskRequest { new_task: true, ..command("chat", text) };
    let first = cluster.accept(fresh("one")).await;
    cluster.ended(first.run).await;
    cluster.clock.advance(91 * DAY);
    let newest = query::event_log::bounds(cluster.engine.store()).await.unwrap().last;
    let removed = cluster.engine.maintenance().enforce_retention().await.unwrap();
    assert_eq!(removed.tasks, 0, "no position of the log is given out twice, so its end stays");
    let other = cluster.say("other", "one").await;
    cluster.ended(other.run).await;
    assert!(cluster.events(other.run).await.iter().all(|event| event.pos.get() > newest));
    let removed = cluster.engine.maintenance().enforce_retention().await.unwrap();
    assert_eq!(removed.tasks, 1);
    assert_eq!(
        query::run::get(cluster.engine.store(), &cluster.namespace, first.run)
            .await
            .unwrap_err()
            .code(),
        "not_found"
    );
    assert_eq!(cluster.store.read(move |tx| task::get(tx, first.task)).await.unwrap(), None);
    // The result of the first call was in a step of the run that is gone.
    let second = cluster.accept(fresh("two")).await;
    let run = cluster.ended(second.run).await;
    assert_eq!(text(&run), "pure did it and pure did it");
    assert_eq!(
        cluster.engine.maintenance().enforce_retention().await.unwrap(),
        RetentionReport::default()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn g59_nothing_that_lives_is_removed() {
    let cluster = Cluster::answering(|request, _| match last_result(request).as_str() {
        "" => scripted::call("risky", json!({})),
        result => scripted::text(format!("told: {result}")),
    })
    .await;
    let forever = Some(1000 * DAY);
    let node = cluster.node(EngineOptions { approval_expiry: forever, ..quick() });
    let _worker = node.start().await.unwrap();
    let patient = |session: &str| TaskRequest { timeout_ms: Some(0), ..command(session, "go") };
    let parked = cluster.accept(patient("parked")).await;
    cluster.parked(parked.run).await;
    let before = cluster.run(parked.run).await;
    cluster.clock.advance(29 * DAY);
    let removed = cluster.engine.maintenance().enforce_retention().await.unwrap();
    assert_eq!(removed, RetentionReport::default());
    assert_eq!(cluster.run(parked.run).await, before);
    let id = cluster.questions().await.remove(0).id;
    cluster
        .engine
        .approvals()
        .answer(&cluster.namespace, id, ApprovalDecision::Approve, "me")
        .await
        .unwrap();
    assert_eq!(text(&cluster.ended(parked.run).await), "told: risky did it");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_and_questions_go_before_their_runs_but_the_end_stays() {
    let cluster = Cluster::answering(|request, _| match last_result(request).as_str() {
        "" => scripted::call("risky", json!({})),
        result => scripted::text(format!("told: {result}")),
    })
    .await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    cluster.parked(accepted.run).await;
    let id = cluster.questions().await.remove(0).id;
    cluster
        .engine
        .approvals()
        .answer(&cluster.namespace, id, ApprovalDecision::Approve, "me")
        .await
        .unwrap();
    let run = cluster.ended(accepted.run).await;
    cluster.clock.advance(31 * DAY);
    let removed = cluster.engine.maintenance().enforce_retention().await.unwrap();
    assert_eq!((removed.tasks, removed.approvals), (0, 1));
    assert_eq!(removed.events, run.next_seq - 2);
    let events = cluster.events(accepted.run).await;
    assert_eq!(events.len(), 1);
    let bounds = query::event_log::bounds(cluster.engine.store()).await.unwrap();
    assert_eq!((bounds.floor, bounds.last), (events[0].pos.get() - 1, events[0].pos.get()));
    assert_eq!((events[0].kind.as_str(), events[0].seq), ("finished", run.next_seq - 1));
    let first =
        cluster.store.read(move |tx| run_event::first_retained(tx, accepted.run)).await.unwrap();
    assert_eq!(first, Some(run.next_seq - 1), "whoever reads on from before is told");
    assert_eq!(cluster.run(accepted.run).await, run);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_keeps_everything_keeps_everything() {
    let cluster = Cluster::new(vec![scripted::text("hello")]).await;
    let retention = RetentionPolicy { runs: None, events: None, approvals: None, records: None };
    let node = cluster.node(EngineOptions { retention, ..quick() });
    let _worker = node.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    cluster.ended(accepted.run).await;
    cluster.clock.advance(1000 * DAY);
    assert_eq!(node.maintenance().enforce_retention().await.unwrap(), RetentionReport::default());
    let kept = cluster.store.read(move |tx| run::get(tx, accepted.run)).await.unwrap();
    assert!(kept.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn g59_a_key_is_remembered_as_long_as_its_task() {
    let cluster = Cluster::new(vec![scripted::text("hello")]).await;
    let _worker = cluster.engine.start().await.unwrap();
    let keyed = || TaskRequest { idempotency_key: Some("k1".to_owned()), ..command("chat", "go") };
    let first = cluster.accept(keyed()).await;
    cluster.ended(first.run).await;
    cluster.clock.advance(80 * DAY);
    cluster.engine.maintenance().enforce_retention().await.unwrap();
    let again = cluster.accept(keyed()).await;
    assert_eq!((again.deduped, again.task), (true, first.task));
    cluster.clock.advance(11 * DAY);
    let other = cluster.say("other", "go").await;
    cluster.ended(other.run).await;
    assert_eq!(cluster.engine.maintenance().enforce_retention().await.unwrap().tasks, 1);
    let new = cluster.accept(keyed()).await;
    assert!(!new.deduped && new.task != first.task);
    assert_eq!(cluster.ended(new.run).await.status, RunStatus::Ok);
}
