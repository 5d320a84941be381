//! The clocks of a run: waiting in the queue, one attempt, the whole run, and silence.

use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_core::lifecycle::{AttemptStatus, RunStatus};
use provost_core::recovery::OutcomeCode;
use provost_engine::EngineOptions;
use provost_model::{self as scripted};
use serde_json::json;

use crate::cluster::{Cluster, quick};
use crate::harness::command;

const MINUTE: Duration = Duration::from_secs(60);

fn due(cluster: &Cluster, session: &str) -> TaskRequest {
    TaskRequest { deadline: Some(cluster.clock.now().after(MINUTE)), ..command(session, "go") }
}

#[tokio::test(flavor = "multi_thread")]
async fn g40_a_deadline_ends_a_run_that_waits_in_the_queue() {
    let cluster = Cluster::new(vec![scripted::text("hello")]).await;
    let keeper = cluster.node(EngineOptions { capacity: 0, ..quick() });
    let _keeper = keeper.start().await.unwrap();
    let accepted = cluster.accept(due(&cluster, "chat")).await;
    cluster.clock.advance(MINUTE);
    let run = cluster.ended(accepted.run).await;
    assert_eq!(
        (run.status.as_str(), run.outcome_code.map(OutcomeCode::as_str)),
        ("timeout", Some("deadline"))
    );
    assert_eq!(run.claim_count, 0);
    assert_eq!(cluster.kinds(accepted.run).await.last().map(String::as_str), Some("timed_out"));
}

#[tokio::test(flavor = "multi_thread")]
async fn g40_a_deadline_ends_a_run_that_waits_for_a_person_also_after_a_restart() {
    let cluster = Cluster::new(vec![scripted::call("risky", json!({}))]).await;
    let worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.accept(due(&cluster, "chat")).await;
    cluster.parked(accepted.run).await;
    worker.stop(Duration::ZERO).await;
    let cluster = cluster.restart().await;
    cluster.clock.advance(MINUTE);
    let _worker = cluster.engine.start().await.unwrap();
    let run = cluster.ended(accepted.run).await;
    assert_eq!(run.status, RunStatus::Timeout);
    assert_eq!(cluster.questions().await, [], "its question needs no answer");
    assert_eq!(cluster.rooms.calls("risky"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn g40_a_deadline_ends_a_run_that_works() {
    let cluster = Cluster::new(vec![scripted::call("gate_opaque", json!({}))]).await;
    // A lease that outlives the jump of the clock: the deadline ends the run, not a lost worker.
    let node = cluster.node(EngineOptions { lease: 10 * MINUTE, ..quick() });
    let _worker = node.start().await.unwrap();
    let accepted = cluster.accept(due(&cluster, "chat")).await;
    let gate = cluster.rooms.gate("gate_opaque");
    gate.entered().await;
    cluster.clock.advance(MINUTE);
    gate.stopped().await;
    let run = cluster.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.claim_count), ("timeout", 1), "never tried again");
    let attempts = cluster.attempts(accepted.run).await;
    assert_eq!(attempts[0].status, AttemptStatus::Timeout);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_nobody_begins_in_time_ends() {
    let cluster = Cluster::new(vec![scripted::text("hello")]).await;
    cluster.agent("hasty", json!({"clocks": {"queue_ms": 60_000}})).await;
    let hasty =
        |session: &str| TaskRequest { agent: Some("hasty".to_owned()), ..command(session, "go") };
    let keeper = cluster.node(EngineOptions { capacity: 0, ..quick() });
    let keeper = keeper.start().await.unwrap();
    let late = cluster.accept(hasty("late")).await;
    cluster.clock.advance(MINUTE);
    assert_eq!(cluster.ended(late.run).await.status, RunStatus::Timeout);
    keeper.stop(Duration::ZERO).await;
    let early = cluster.accept(hasty("early")).await;
    let _worker = cluster.engine.start().await.unwrap();
    assert_eq!(cluster.ended(early.run).await.status, RunStatus::Ok);
    cluster.clock.advance(MINUTE);
    assert_eq!(cluster.run(early.run).await.status, RunStatus::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_takes_too_long_gives_way_to_another() {
    let cluster = Cluster::new(vec![scripted::text("never").hang()]).await;
    cluster.agent("default", json!({"clocks": {"attempt_ms": 700}})).await;
    let _worker = cluster.engine.start().await.unwrap();
    let policy = json!({"retry": {"max_attempts": 2, "delay_ms": 0}});
    let accepted = cluster.say_with("chat", policy).await;
    let run = cluster.ended(accepted.run).await;
    assert_eq!(run.outcome_code.map(OutcomeCode::as_str), Some("provider_overloaded"));
    assert_eq!((run.claim_count, cluster.rooms.model_calls()), (2, 2));
    assert!(run.detail.unwrap().contains("the model did not finish within"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_says_nothing_is_given_up_but_a_tool_may_be_silent() {
    let cluster =
        Cluster::new(vec![scripted::call("gate_pure", json!({})), scripted::text("never").hang()])
            .await;
    let idle_timeout = Some(Duration::from_millis(400));
    let _worker = cluster.node(EngineOptions { idle_timeout, ..quick() }).start().await.unwrap();
    let accepted = cluster.say_with("chat", json!({"retry": {"max_attempts": 1}})).await;
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    // Nothing stops it, though it says nothing for longer than that.
    let stopped = tokio::time::timeout(Duration::from_millis(600), gate.stopped());
    assert!(stopped.await.is_err());
    gate.open(1);
    let run = cluster.ended(accepted.run).await;
    assert_eq!(run.outcome_code.map(OutcomeCode::as_str), Some("provider_overloaded"));
    assert!(run.detail.unwrap().contains("produced no event for"));
    assert_eq!(gate.came(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_that_make_no_sense_are_refused() {
    let cluster = Cluster::new(vec![]).await;
    let change = json!({"clocks": {"attempt": 5}}).as_object().unwrap().clone();
    let refused =
        cluster.engine.update_agent(&cluster.namespace, "default", change).await.unwrap_err();
    assert_eq!(refused.code(), "invalid");
}
