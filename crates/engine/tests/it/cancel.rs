//! Cancelling what waits, what works and what nobody hears.

use std::sync::atomic::Ordering;
use std::time::Duration;

use provost_core::id::name::Namespace;
use provost_core::lifecycle::{RunPhase, RunStatus};
use provost_core::recovery::OutcomeCode;
use provost_core::scheduling::InputMode;
use provost_core::{Env, RunId, TaskId};
use provost_engine::{CancelResult, EngineOptions};
use provost_model::{self as scripted};
use provost_store::query;
use provost_store::table::work::input;
use serde_json::json;

use crate::cluster::{Cluster, LEASE, NEVER, frozen, quick};
use crate::harness::command;

async fn gated() -> Cluster {
    Cluster::new(vec![scripted::call("gate_opaque", json!({}))]).await
}

#[tokio::test(flavor = "multi_thread")]
async fn g36_a_queued_run_that_is_cancelled_never_starts() {
    let cluster = gated().await;
    let accepted = cluster.say("chat", "go").await;
    let cancel = || cluster.engine.runs().cancel(&cluster.namespace, accepted.run);
    assert_eq!(cancel().await.unwrap(), CancelResult::Ended);
    assert_eq!(cancel().await.unwrap(), CancelResult::AlreadyEnded);
    let after = cluster.say("after", "go").await;
    let _worker = cluster.engine.start().await.unwrap();
    cluster.rooms.gate("gate_opaque").open(1);
    cluster.ended(after.run).await;
    let run = cluster.run(accepted.run).await;
    assert_eq!((run.status.as_str(), run.claim_count), ("cancelled", 0));
    assert_eq!(run.outcome_code.map(OutcomeCode::as_str), Some("cancelled_by_user"));
    let task =
        query::task::get(cluster.engine.store(), &cluster.namespace, accepted.task).await.unwrap();
    assert_eq!(task.state.as_str(), "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn g36_cancelling_what_has_ended_says_so_and_changes_nothing() {
    let cluster = Cluster::new(vec![scripted::text("hello")]).await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    let run = cluster.ended(accepted.run).await;
    let events = cluster.events(accepted.run).await;
    let cancelled = cluster.engine.runs().cancel(&cluster.namespace, accepted.run).await.unwrap();
    assert_eq!(cancelled, CancelResult::AlreadyEnded);
    let cancelled = cluster.engine.tasks().cancel(&cluster.namespace, accepted.task).await.unwrap();
    assert_eq!(cancelled, CancelResult::AlreadyEnded);
    assert_eq!(cluster.run(accepted.run).await, run, "g47: an end is an end");
    assert_eq!(cluster.events(accepted.run).await, events);
}

#[tokio::test(flavor = "multi_thread")]
async fn g37_a_run_whose_worker_is_dead_is_cancelled_with_its_lease() {
    let cluster = gated().await;
    let _lost = cluster.node(frozen()).start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    cluster.rooms.gate("gate_opaque").entered().await;
    let _other = cluster.engine.start().await.unwrap();
    // It hears no hint, so it is as good as dead.
    cluster.meddle("UPDATE run SET cancel_requested = 1, cancel_code = 'cancelled_by_user'").await;
    cluster.clock.advance(LEASE);
    let run = cluster.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.epoch), ("cancelled", 1), "without a grace");
    assert_eq!(cluster.kinds(accepted.run).await.last().map(String::as_str), Some("cancelled"));
}

#[tokio::test(flavor = "multi_thread")]
async fn g38_a_running_tool_is_stopped() {
    let cluster = gated().await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    let gate = cluster.rooms.gate("gate_opaque");
    gate.entered().await;
    let cancelled = cluster.engine.runs().cancel(&cluster.namespace, accepted.run).await.unwrap();
    assert_eq!(cancelled, CancelResult::Requested);
    gate.stopped().await;
    let run = cluster.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.claim_count), ("cancelled", 1), "never tried again");
    assert_eq!(cluster.class().await.running, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn g38_a_run_that_does_not_stop_is_dropped_after_a_grace() {
    let cluster = gated().await;
    cluster.rooms.door_closed.store(true, Ordering::SeqCst);
    cluster.agent("stubborn", json!({})).await;
    let grace = Duration::from_millis(20);
    let _worker = cluster.node(EngineOptions { grace, ..quick() }).start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    cluster.rooms.door.entered().await;
    cluster.engine.runs().cancel(&cluster.namespace, accepted.run).await.unwrap();
    assert_eq!(cluster.ended(accepted.run).await.status, RunStatus::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_14_a_cancel_that_nobody_signalled_is_found_in_the_row() {
    let cluster = gated().await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    let gate = cluster.rooms.gate("gate_opaque");
    gate.entered().await;
    // Committed by a process that died before it could tell anybody.
    cluster.meddle("UPDATE run SET cancel_requested = 1, cancel_code = 'cancelled_by_user'").await;
    gate.stopped().await;
    assert_eq!(cluster.ended(accepted.run).await.status, RunStatus::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn g39_the_heartbeat_finds_it_too() {
    let cluster = gated().await;
    let options = EngineOptions { poll: NEVER, heartbeat: Duration::from_millis(10), ..quick() };
    let _worker = cluster.node(options).start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    cluster.rooms.gate("gate_opaque").entered().await;
    cluster.meddle("UPDATE run SET cancel_requested = 1").await;
    assert_eq!(cluster.ended(accepted.run).await.status, RunStatus::Cancelled);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_cancelled_with_what_waits_for_it() {
    let cluster = gated().await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    let gate = cluster.rooms.gate("gate_opaque");
    gate.entered().await;
    let mut later = command("chat", "and then this");
    later.queue_mode = Some(InputMode::Followup);
    let later = cluster.accept(later).await;
    assert_eq!(later.task, accepted.task);
    let cancelled = cluster.engine.tasks().cancel(&cluster.namespace, accepted.task).await.unwrap();
    assert_eq!(cancelled, CancelResult::Requested);
    assert_eq!(cluster.ended(accepted.run).await.status, RunStatus::Cancelled);
    let waited = cluster.ended(later.run).await;
    assert_eq!((waited.status.as_str(), waited.claim_count), ("cancelled", 0));
    let task =
        query::task::get(cluster.engine.store(), &cluster.namespace, accepted.task).await.unwrap();
    assert_eq!(task.state.as_str(), "cancelled");
    let said = cluster.store.read(move |tx| input::get(tx, later.input)).await.unwrap().unwrap();
    assert_eq!(said.state.as_str(), "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_exist_or_is_not_yours_is_not_found() {
    let cluster = gated().await;
    let accepted = cluster.say("chat", "go").await;
    let stranger: Namespace = "stranger".parse().unwrap();
    let env = Env::system();
    let (run, task): (RunId, TaskId) = (env.id(), env.id());
    for (namespace, run, task) in
        [(&stranger, accepted.run, accepted.task), (&cluster.namespace, run, task)]
    {
        let errors = [
            cluster.engine.runs().cancel(namespace, run).await.unwrap_err(),
            cluster.engine.tasks().cancel(namespace, task).await.unwrap_err(),
            cluster.engine.runs().resume(namespace, run, "me").await.unwrap_err(),
            cluster.engine.runs().retry(namespace, run).await.unwrap_err(),
        ];
        for error in errors {
            assert_eq!(error.code(), "not_found", "g60: {error}");
            assert!(error.to_string().contains("check the id"), "{error}");
        }
    }
    assert_eq!(cluster.run(accepted.run).await.phase, RunPhase::Queued);
}
