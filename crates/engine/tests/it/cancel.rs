//! Cancelling what waits, what works and what nobody hears.

use std::sync::atomic::Ordering;
use std::time::Duration;

use provost_core::id::name::Namespace;
use provost_core::scheduling::InputMode;
use provost_core::{Env, RunId, TaskId};
use provost_engine::{Cancelled, EngineOptions};
use provost_model::{self as scripted};
use provost_store::query;
use provost_store::table::work::input;
use serde_json::json;

use crate::house::{House, LEASE, NEVER, frozen, quick};
use crate::stage::command;

async fn gated() -> House {
    House::new(vec![scripted::call("gate_opaque", json!({}))]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn g36_a_queued_run_that_is_cancelled_never_starts() {
    let house = gated().await;
    let accepted = house.say("chat", "go").await;
    let cancel = || house.engine.runs().cancel(&house.namespace, accepted.run);
    assert_eq!(cancel().await.unwrap(), Cancelled::Now);
    assert_eq!(cancel().await.unwrap(), Cancelled::AlreadyTerminal);
    let after = house.say("after", "go").await;
    let _worker = house.engine.start().await.unwrap();
    house.rooms.gate("gate_opaque").open(1);
    house.ended(after.run).await;
    let run = house.run(accepted.run).await;
    assert_eq!((run.status.as_str(), run.claim_count), ("cancelled", 0));
    assert_eq!(run.outcome_code.as_deref(), Some("cancelled_by_user"));
    let task =
        query::task::get(house.engine.store(), &house.namespace, accepted.task).await.unwrap();
    assert_eq!(task.state, "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn g36_cancelling_what_has_ended_says_so_and_changes_nothing() {
    let house = House::new(vec![scripted::text("hello")]).await;
    let _worker = house.engine.start().await.unwrap();
    let accepted = house.say("chat", "go").await;
    let run = house.ended(accepted.run).await;
    let events = house.events(accepted.run).await;
    let cancelled = house.engine.runs().cancel(&house.namespace, accepted.run).await.unwrap();
    assert_eq!(cancelled, Cancelled::AlreadyTerminal);
    let cancelled = house.engine.tasks().cancel(&house.namespace, accepted.task).await.unwrap();
    assert_eq!(cancelled, Cancelled::AlreadyTerminal);
    assert_eq!(house.run(accepted.run).await, run, "g47: an end is an end");
    assert_eq!(house.events(accepted.run).await, events);
}

#[tokio::test(flavor = "multi_thread")]
async fn g37_a_run_whose_worker_is_dead_is_cancelled_with_its_lease() {
    let house = gated().await;
    let _lost = house.node(frozen()).start().await.unwrap();
    let accepted = house.say("chat", "go").await;
    house.rooms.gate("gate_opaque").entered().await;
    let _other = house.engine.start().await.unwrap();
    // It hears no hint, so it is as good as dead.
    house.meddle("UPDATE run SET cancel_requested = 1, cancel_code = 'cancelled_by_user'").await;
    house.clock.advance(LEASE);
    let run = house.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.epoch), ("cancelled", 1), "without a grace");
    assert_eq!(house.kinds(accepted.run).await.last().map(String::as_str), Some("cancelled"));
}

#[tokio::test(flavor = "multi_thread")]
async fn g38_a_running_tool_is_stopped() {
    let house = gated().await;
    let _worker = house.engine.start().await.unwrap();
    let accepted = house.say("chat", "go").await;
    let gate = house.rooms.gate("gate_opaque");
    gate.entered().await;
    let cancelled = house.engine.runs().cancel(&house.namespace, accepted.run).await.unwrap();
    assert_eq!(cancelled, Cancelled::Requested);
    gate.stopped().await;
    let run = house.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.claim_count), ("cancelled", 1), "never tried again");
    assert_eq!(house.class().await.running, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn g38_a_run_that_does_not_stop_is_dropped_after_a_grace() {
    let house = gated().await;
    house.rooms.door_closed.store(true, Ordering::SeqCst);
    house.agent("stubborn", json!({})).await;
    let grace = Duration::from_millis(20);
    let _worker = house.node(EngineOptions { grace, ..quick() }).start().await.unwrap();
    let accepted = house.say("chat", "go").await;
    house.rooms.door.entered().await;
    house.engine.runs().cancel(&house.namespace, accepted.run).await.unwrap();
    assert_eq!(house.ended(accepted.run).await.status, "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_14_a_cancel_that_nobody_signalled_is_found_in_the_row() {
    let house = gated().await;
    let _worker = house.engine.start().await.unwrap();
    let accepted = house.say("chat", "go").await;
    let gate = house.rooms.gate("gate_opaque");
    gate.entered().await;
    // Committed by a process that died before it could tell anybody.
    house.meddle("UPDATE run SET cancel_requested = 1, cancel_code = 'cancelled_by_user'").await;
    gate.stopped().await;
    assert_eq!(house.ended(accepted.run).await.status, "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn g39_the_heartbeat_finds_it_too() {
    let house = gated().await;
    let options = EngineOptions { poll: NEVER, heartbeat: Duration::from_millis(10), ..quick() };
    let _worker = house.node(options).start().await.unwrap();
    let accepted = house.say("chat", "go").await;
    house.rooms.gate("gate_opaque").entered().await;
    house.meddle("UPDATE run SET cancel_requested = 1").await;
    assert_eq!(house.ended(accepted.run).await.status, "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_cancelled_with_what_waits_for_it() {
    let house = gated().await;
    let _worker = house.engine.start().await.unwrap();
    let accepted = house.say("chat", "go").await;
    let gate = house.rooms.gate("gate_opaque");
    gate.entered().await;
    let mut later = command("chat", "and then this");
    later.queue_mode = Some(InputMode::Followup);
    let later = house.accept(later).await;
    assert_eq!(later.task, accepted.task);
    let cancelled = house.engine.tasks().cancel(&house.namespace, accepted.task).await.unwrap();
    assert_eq!(cancelled, Cancelled::Requested);
    assert_eq!(house.ended(accepted.run).await.status, "cancelled");
    let waited = house.ended(later.run).await;
    assert_eq!((waited.status.as_str(), waited.claim_count), ("cancelled", 0));
    let task =
        query::task::get(house.engine.store(), &house.namespace, accepted.task).await.unwrap();
    assert_eq!(task.state, "cancelled");
    let said = house.store.read(move |tx| input::get(tx, later.input)).await.unwrap().unwrap();
    assert_eq!(said.state, "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_exist_or_is_not_yours_is_not_found() {
    let house = gated().await;
    let accepted = house.say("chat", "go").await;
    let stranger: Namespace = "stranger".parse().unwrap();
    let env = Env::system();
    let (run, task): (RunId, TaskId) = (env.id(), env.id());
    for (namespace, run, task) in
        [(&stranger, accepted.run, accepted.task), (&house.namespace, run, task)]
    {
        let errors = [
            house.engine.runs().cancel(namespace, run).await.unwrap_err(),
            house.engine.tasks().cancel(namespace, task).await.unwrap_err(),
            house.engine.runs().resume(namespace, run, "me").await.unwrap_err(),
            house.engine.runs().retry(namespace, run).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.code(), "not_found", "g60: {error}");
            assert!(error.to_string().contains("check the id"), "{error}");
        }
    }
    assert_eq!(house.run(accepted.run).await.phase, "queued");
}
