//! The clocks of a run: waiting in the queue, one attempt, the whole run, and silence.

use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_engine::EngineOptions;
use provost_model::{self as scripted};
use serde_json::json;

use crate::house::{House, quick};
use crate::stage::command;

const MINUTE: Duration = Duration::from_secs(60);

fn due(house: &House, session: &str) -> TaskRequest {
    TaskRequest { deadline: Some(house.clock.now().after(MINUTE)), ..command(session, "go") }
}

#[tokio::test(flavor = "multi_thread")]
async fn g40_a_deadline_ends_a_run_that_waits_in_the_queue() {
    let house = House::new(vec![scripted::text("hello")]).await;
    let keeper = house.node(EngineOptions { capacity: 0, ..quick() });
    let _keeper = keeper.start().await.unwrap();
    let accepted = house.accept(due(&house, "chat")).await;
    house.clock.advance(MINUTE);
    let run = house.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.outcome_code.as_deref()), ("timeout", Some("deadline")));
    assert_eq!(run.claim_count, 0);
    assert_eq!(house.kinds(accepted.run).await.last().map(String::as_str), Some("timed_out"));
}

#[tokio::test(flavor = "multi_thread")]
async fn g40_a_deadline_ends_a_run_that_waits_for_a_person_also_after_a_restart() {
    let house = House::new(vec![scripted::call("risky", json!({}))]).await;
    let worker = house.engine.start().await.unwrap();
    let accepted = house.accept(due(&house, "chat")).await;
    house.parked(accepted.run).await;
    worker.stop(Duration::ZERO).await;
    let house = house.restart().await;
    house.clock.advance(MINUTE);
    let _worker = house.engine.start().await.unwrap();
    let run = house.ended(accepted.run).await;
    assert_eq!(run.status, "timeout");
    assert_eq!(house.questions().await, [], "its question needs no answer");
    assert_eq!(house.rooms.calls("risky"), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn g40_a_deadline_ends_a_run_that_works() {
    let house = House::new(vec![scripted::call("gate_opaque", json!({}))]).await;
    // A lease that outlives the jump of the clock: the deadline ends the run, not a lost worker.
    let node = house.node(EngineOptions { lease: 10 * MINUTE, ..quick() });
    let _worker = node.start().await.unwrap();
    let accepted = house.accept(due(&house, "chat")).await;
    let gate = house.rooms.gate("gate_opaque");
    gate.entered().await;
    house.clock.advance(MINUTE);
    gate.stopped().await;
    let run = house.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.claim_count), ("timeout", 1), "never tried again");
    let attempts = house.attempts(accepted.run).await;
    assert_eq!(attempts[0].status, "timeout");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_nobody_begins_in_time_ends() {
    let house = House::new(vec![scripted::text("hello")]).await;
    house.agent("hasty", json!({"clocks": {"queue_ms": 60_000}})).await;
    let hasty =
        |session: &str| TaskRequest { agent: Some("hasty".to_owned()), ..command(session, "go") };
    let keeper = house.node(EngineOptions { capacity: 0, ..quick() });
    let keeper = keeper.start().await.unwrap();
    let late = house.accept(hasty("late")).await;
    house.clock.advance(MINUTE);
    assert_eq!(house.ended(late.run).await.status, "timeout");
    keeper.stop(Duration::ZERO).await;
    let early = house.accept(hasty("early")).await;
    let _worker = house.engine.start().await.unwrap();
    assert_eq!(house.ended(early.run).await.status, "ok");
    house.clock.advance(MINUTE);
    assert_eq!(house.run(early.run).await.status, "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_takes_too_long_gives_way_to_another() {
    let house = House::new(vec![scripted::text("never").hang()]).await;
    house.agent("default", json!({"clocks": {"attempt_ms": 700}})).await;
    let _worker = house.engine.start().await.unwrap();
    let policy = json!({"retry": {"max_attempts": 2, "delay_ms": 0}});
    let accepted = house.say_with("chat", policy).await;
    let run = house.ended(accepted.run).await;
    assert_eq!(run.outcome_code.as_deref(), Some("provider_overloaded"));
    assert_eq!((run.claim_count, house.rooms.model_calls()), (2, 2));
    assert!(run.detail.unwrap().contains("the model was not done within"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_says_nothing_is_given_up_but_a_tool_may_be_silent() {
    let house =
        House::new(vec![scripted::call("gate_pure", json!({})), scripted::text("never").hang()])
            .await;
    let idle_timeout = Some(Duration::from_millis(400));
    let _worker = house.node(EngineOptions { idle_timeout, ..quick() }).start().await.unwrap();
    let accepted = house.say_with("chat", json!({"retry": {"max_attempts": 1}})).await;
    let gate = house.rooms.gate("gate_pure");
    gate.entered().await;
    // Nothing stops it, though it says nothing for longer than that.
    let stopped = tokio::time::timeout(Duration::from_millis(600), gate.stopped());
    assert!(stopped.await.is_err());
    gate.open(1);
    let run = house.ended(accepted.run).await;
    assert_eq!(run.outcome_code.as_deref(), Some("provider_overloaded"));
    assert!(run.detail.unwrap().contains("said nothing for"));
    assert_eq!(gate.came(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn clocks_that_make_no_sense_are_refused() {
    let house = House::new(vec![]).await;
    let config = serde_json::from_value(json!({"clocks": {"attempt": 5}})).unwrap();
    let refused = house.engine.put_agent(&house.namespace, "odd", None, config).await.unwrap_err();
    assert_eq!(refused.code(), "invalid");
}
