//! What is over goes after its time; what lives, and what something living needs, stays.

use std::time::Duration;

use provost_core::ApprovalDecision;
use provost_core::command::TaskRequest;
use provost_engine::{EngineOptions, Removed, Retention};
use provost_model::{self as scripted};
use provost_store::query;
use provost_store::table::work::{run, run_event, task};
use serde_json::json;

use crate::house::{House, last_result, quick};
use crate::stage::{command, text};

const DAY: Duration = Duration::from_secs(24 * 3600);

#[tokio::test(flavor = "multi_thread")]
async fn g59_old_runs_go_and_the_conversation_stays() {
    let house = House::answering(|request, _| {
        let results = request.messages.iter().flat_map(|message| message.tool_results());
        let seen: Vec<String> = results.map(|result| result.to_text()).collect();
        match request.messages.last().map(|message| message.role) {
            Some(provost_core::Role::User) => scripted::call("pure", json!({})),
            _ => scripted::text(seen.join(" and ")),
        }
    })
    .await;
    let _worker = house.engine.start().await.unwrap();
    let fresh = |text: &str| TaskRequest { new_task: true, ..command("chat", text) };
    let first = house.accept(fresh("one")).await;
    house.ended(first.run).await;
    house.clock.advance(91 * DAY);
    let newest = query::event_log::bounds(house.engine.store()).await.unwrap().last;
    let removed = house.engine.maintenance().remove_old().await.unwrap();
    assert_eq!(removed.tasks, 0, "no position of the log is given out twice, so its end stays");
    let other = house.say("other", "one").await;
    house.ended(other.run).await;
    assert!(house.events(other.run).await.iter().all(|event| event.pos.get() > newest));
    let removed = house.engine.maintenance().remove_old().await.unwrap();
    assert_eq!(removed.tasks, 1);
    assert_eq!(
        query::run::get(house.engine.store(), &house.namespace, first.run)
            .await
            .unwrap_err()
            .code(),
        "not_found"
    );
    assert_eq!(house.store.read(move |tx| task::get(tx, first.task)).await.unwrap(), None);
    // The result of the first call was in a step of the run that is gone.
    let second = house.accept(fresh("two")).await;
    let run = house.ended(second.run).await;
    assert_eq!(text(&run), "pure did it and pure did it");
    assert_eq!(house.engine.maintenance().remove_old().await.unwrap(), Removed::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn g59_nothing_that_lives_is_removed() {
    let house = House::answering(|request, _| match last_result(request).as_str() {
        "" => scripted::call("risky", json!({})),
        result => scripted::text(format!("told: {result}")),
    })
    .await;
    let forever = Some(1000 * DAY);
    let node = house.node(EngineOptions { approval_expiry: forever, ..quick() });
    let _worker = node.start().await.unwrap();
    let patient = |session: &str| TaskRequest { timeout_ms: Some(0), ..command(session, "go") };
    let parked = house.accept(patient("parked")).await;
    house.parked(parked.run).await;
    let before = house.run(parked.run).await;
    house.clock.advance(29 * DAY);
    let removed = house.engine.maintenance().remove_old().await.unwrap();
    assert_eq!(removed, Removed::default());
    assert_eq!(house.run(parked.run).await, before);
    let id = house.questions().await.remove(0).id;
    house
        .engine
        .approvals()
        .answer(&house.namespace, id, ApprovalDecision::Approve, "me")
        .await
        .unwrap();
    assert_eq!(text(&house.ended(parked.run).await), "told: risky did it");
}

#[tokio::test(flavor = "multi_thread")]
async fn events_and_questions_go_before_their_runs_but_the_end_stays() {
    let house = House::answering(|request, _| match last_result(request).as_str() {
        "" => scripted::call("risky", json!({})),
        result => scripted::text(format!("told: {result}")),
    })
    .await;
    let _worker = house.engine.start().await.unwrap();
    let accepted = house.say("chat", "go").await;
    house.parked(accepted.run).await;
    let id = house.questions().await.remove(0).id;
    house
        .engine
        .approvals()
        .answer(&house.namespace, id, ApprovalDecision::Approve, "me")
        .await
        .unwrap();
    let run = house.ended(accepted.run).await;
    house.clock.advance(31 * DAY);
    let removed = house.engine.maintenance().remove_old().await.unwrap();
    assert_eq!((removed.tasks, removed.approvals), (0, 1));
    assert_eq!(removed.events, run.next_seq - 2);
    let events = house.events(accepted.run).await;
    assert_eq!(events.len(), 1);
    let bounds = query::event_log::bounds(house.engine.store()).await.unwrap();
    assert_eq!((bounds.floor, bounds.last), (events[0].pos.get() - 1, events[0].pos.get()));
    assert_eq!((events[0].kind.as_str(), events[0].seq), ("finished", run.next_seq - 1));
    let first = house.store.read(move |tx| run_event::first_kept(tx, accepted.run)).await.unwrap();
    assert_eq!(first, Some(run.next_seq - 1), "whoever reads on from before is told");
    assert_eq!(house.run(accepted.run).await, run);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_keeps_everything_keeps_everything() {
    let house = House::new(vec![scripted::text("hello")]).await;
    let retention = Retention { runs: None, events: None, approvals: None, records: None };
    let node = house.node(EngineOptions { retention, ..quick() });
    let _worker = node.start().await.unwrap();
    let accepted = house.say("chat", "go").await;
    house.ended(accepted.run).await;
    house.clock.advance(1000 * DAY);
    assert_eq!(node.maintenance().remove_old().await.unwrap(), Removed::default());
    let kept = house.store.read(move |tx| run::get(tx, accepted.run)).await.unwrap();
    assert!(kept.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn g59_a_key_is_remembered_as_long_as_its_task() {
    let house = House::new(vec![scripted::text("hello")]).await;
    let _worker = house.engine.start().await.unwrap();
    let keyed = || TaskRequest { idempotency_key: Some("k1".to_owned()), ..command("chat", "go") };
    let first = house.accept(keyed()).await;
    house.ended(first.run).await;
    house.clock.advance(80 * DAY);
    house.engine.maintenance().remove_old().await.unwrap();
    let again = house.accept(keyed()).await;
    assert_eq!((again.deduped, again.task), (true, first.task));
    house.clock.advance(11 * DAY);
    let other = house.say("other", "go").await;
    house.ended(other.run).await;
    assert_eq!(house.engine.maintenance().remove_old().await.unwrap().tasks, 1);
    let new = house.accept(keyed()).await;
    assert!(!new.deduped && new.task != first.task);
    assert_eq!(house.ended(new.run).await.status, "ok");
}
