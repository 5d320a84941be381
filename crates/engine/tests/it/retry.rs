//! Trying again: by the code of the outcome, after a growing wait, and never what is final.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_core::lifecycle::{RunStatus, WaitReason};
use provost_core::recovery::OutcomeCode;
use provost_model::{self as scripted, ModelError, ModelErrorClass, ScriptedTurn};
use serde_json::{Value, json};

use crate::cluster::{Cluster, quick};
use crate::harness::{command, text};

/// A model that fails so many times, then answers.
async fn failing(
    times: usize,
    failure: impl Fn() -> ScriptedTurn + Send + Sync + 'static,
) -> Cluster {
    let failed = Arc::new(AtomicUsize::new(0));
    Cluster::answering(move |_, _| {
        if failed.fetch_add(1, Ordering::SeqCst) < times {
            failure()
        } else {
            scripted::text("hello")
        }
    })
    .await
}

fn overloaded() -> ScriptedTurn {
    scripted::fail(ModelErrorClass::Overloaded, "too many people want this")
}

fn steady(max_attempts: u32) -> Value {
    json!({"retry": {
        "max_attempts": max_attempts, "delay_ms": 1000, "factor": 3, "jitter": "none",
    }})
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_13_tries_are_counted_and_wait_longer_each_time() {
    let cluster = failing(9, overloaded).await;
    cluster.agent("default", json!({"policy": steady(4)})).await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    for (failures, wait_s) in [(1, 1), (2, 3), (3, 9)] {
        let run = cluster.until(accepted.run, |row| row.failure_count == failures).await;
        let wait = run.not_before.since(cluster.clock.now());
        assert_eq!((run.phase.as_str(), wait), ("queued", Duration::from_secs(wait_s)));
        assert_eq!(cluster.class().await.running, 0, "nothing is held while it waits");
        cluster.clock.advance(wait);
    }
    let run = cluster.ended(accepted.run).await;
    assert_eq!(run.status, RunStatus::Error);
    assert_eq!(run.outcome_code.map(OutcomeCode::as_str), Some("provider_overloaded"));
    assert_eq!((run.claim_count, cluster.rooms.model_calls()), (4, 4));
    let attempts = cluster.attempts(accepted.run).await;
    let strategies: Vec<_> = attempts.iter().map(|row| row.strategy.as_str()).collect();
    assert_eq!(strategies, ["primary", "retry", "retry", "retry"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn g41_a_wait_is_spread_and_never_longer_than_its_bound() {
    let cluster = failing(40, overloaded).await;
    let _worker = cluster.engine.start().await.unwrap();
    let policy = json!({"retry": {"max_attempts": 2, "delay_ms": 60_000, "factor": 1}});
    let mut waits = Vec::new();
    for run in 0..8 {
        let accepted = cluster.say_with(&format!("s{run}"), policy.clone()).await;
        let run = cluster.until(accepted.run, |row| row.failure_count == 1).await;
        waits.push(run.not_before.since(cluster.clock.now()));
    }
    assert!(waits.iter().all(|wait| *wait <= Duration::from_secs(60)), "{waits:?}");
    waits.sort();
    waits.dedup();
    assert!(waits.len() > 1, "they do not come back together");
}

#[tokio::test(flavor = "multi_thread")]
async fn g41_a_final_code_is_never_tried_again() {
    let refused = || scripted::fail(ModelErrorClass::InvalidRequest, "no such thing");
    let cluster = failing(9, refused).await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say_with("chat", json!({"retry": {"pause_at_end": true}})).await;
    let run = cluster.ended(accepted.run).await;
    assert_eq!(run.outcome_code.map(OutcomeCode::as_str), Some("provider_bad_request"));
    assert_eq!((run.claim_count, cluster.rooms.model_calls()), (1, 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn g41_only_the_listed_codes_are_tried_again() {
    let cluster = failing(9, overloaded).await;
    let _worker = cluster.engine.start().await.unwrap();
    let policy = json!({"retry": {"retry_on": ["provider_rate_limited"]}});
    let accepted = cluster.say_with("chat", policy).await;
    let run = cluster.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.claim_count), ("error", 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_that_works_ends_the_trying() {
    let cluster = failing(1, overloaded).await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say_with("chat", steady(3)).await;
    cluster.until(accepted.run, |row| row.failure_count == 1).await;
    cluster.clock.advance(Duration::from_secs(1));
    let run = cluster.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), text(&run).as_str()), ("ok", "hello"));
    let kinds = cluster.kinds(accepted.run).await;
    assert_eq!(kinds.iter().filter(|kind| *kind == "retry_scheduled").count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn g42_a_provider_that_wants_to_be_left_alone_is() {
    let limited = || {
        let mut error = ModelError::new(ModelErrorClass::RateLimited, "come back later");
        error.retry_after = Some(Duration::from_secs(900));
        ScriptedTurn::default().then_fail(error)
    };
    let cluster = failing(1, limited).await;
    let worker = cluster.engine.start().await.unwrap();
    let patient = TaskRequest { timeout_ms: Some(0), ..command("chat", "go") };
    let accepted = cluster.accept(patient).await;
    let run = cluster.until(accepted.run, |row| row.failure_count == 1).await;
    let wait = run.not_before.since(cluster.clock.now());
    assert!(wait >= Duration::from_secs(900) && wait < Duration::from_secs(1000), "{wait:?}");
    assert_eq!((run.phase.as_str(), run.lease_owner), ("queued", None));
    assert_eq!(cluster.class().await.running, 0, "its place is free");
    // Nobody has to remember it.
    worker.stop(Duration::ZERO).await;
    let cluster = cluster.restart().await;
    let _worker = cluster.engine.start().await.unwrap();
    assert_eq!(cluster.run(accepted.run).await.claim_count, 1);
    cluster.clock.advance(wait);
    assert_eq!(cluster.ended(accepted.run).await.status, RunStatus::Ok);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_tries_are_used_up_waits_for_an_operator_who_wants_that() {
    let cluster = failing(2, overloaded).await;
    let _worker = cluster.engine.start().await.unwrap();
    let policy = json!({"retry": {"max_attempts": 2, "delay_ms": 0, "pause_at_end": true}});
    let accepted = cluster.say_with("chat", policy).await;
    let run = cluster.parked(accepted.run).await;
    assert_eq!(run.parked_for.map(WaitReason::as_str), Some("operator"));
    assert_eq!(run.outcome_code.map(OutcomeCode::as_str), Some("provider_overloaded"));
    assert!(!run.holds_session, "the conversation goes on without it");
    cluster.engine.runs().resume(&cluster.namespace, accepted.run, "operator").await.unwrap();
    let run = cluster.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), run.failure_count), ("ok", 0));
    assert!(cluster.kinds(accepted.run).await.contains(&"resumed".to_owned()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_failed_is_tried_again_as_a_new_run_of_its_task() {
    let cluster = failing(1, overloaded).await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say_with("chat", json!({"retry": {"max_attempts": 1}})).await;
    let failed = cluster.ended(accepted.run).await;
    assert_eq!(failed.status, RunStatus::Error);
    let again = cluster.engine.runs().retry(&cluster.namespace, accepted.run).await.unwrap();
    let run = cluster.ended(again).await;
    assert_eq!((run.status.as_str(), run.task_id), ("ok", accepted.task));
    assert_eq!(cluster.run(accepted.run).await, failed, "g47: the end of the first one stays");
    let refused = cluster.engine.runs().retry(&cluster.namespace, again).await.unwrap_err();
    assert_eq!(refused.code(), "already_terminal");
    let refused =
        cluster.engine.runs().resume(&cluster.namespace, again, "operator").await.unwrap_err();
    assert_eq!(refused.code(), "already_terminal");
}

#[tokio::test(flavor = "multi_thread")]
async fn a16_05_words_in_a_message_do_not_decide_anything() {
    for words in ["timeout", "it was cancelled by the user", "rate limited, fenced, budget"] {
        let failure = move || scripted::fail(ModelErrorClass::InvalidRequest, words);
        let cluster = failing(1, failure).await;
        let _worker = cluster.engine.start().await.unwrap();
        let accepted = cluster.say("chat", words).await;
        let run = cluster.ended(accepted.run).await;
        assert_eq!(run.status, RunStatus::Error, "{words}");
        assert_eq!(
            run.outcome_code.map(OutcomeCode::as_str),
            Some("provider_bad_request"),
            "{words}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_built_is_tried_again_and_a_panic_is_a_failure() {
    let cluster = failing(0, overloaded).await;
    cluster.rooms.broken.store(true, Ordering::SeqCst);
    let _worker = cluster.node(quick()).start().await.unwrap();
    let accepted = cluster.say_with("chat", steady(2)).await;
    let run = cluster.until(accepted.run, |row| row.failure_count == 1).await;
    let attempts = cluster.attempts(accepted.run).await;
    assert_eq!(attempts[0].outcome_code.map(OutcomeCode::as_str), Some("sandbox_start"));
    cluster.rooms.broken.store(false, Ordering::SeqCst);
    cluster.clock.advance(run.not_before.since(cluster.clock.now()));
    assert_eq!(cluster.ended(accepted.run).await.status, RunStatus::Ok);
}
