//! The same request gets the same answer, whatever the caller repeats and whoever hears it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use provost_core::Env;
use provost_core::command::TaskRequest;
use provost_engine::AgentConfig;
use provost_store::{FaultPoint, Faults, StoreError};
use serde_json::json;

use crate::stage::{command, patch};
use crate::talk::Talk;

const TABLES: [&str; 8] =
    ["task", "run", "input", "message", "session", "run_event", "outbox", "timer"];

async fn counts(talk: &Talk) -> Vec<u64> {
    let mut counts = Vec::new();
    for table in TABLES {
        counts.push(talk.count(table).await);
    }
    counts
}

fn keyed(key: &str, text: &str) -> TaskRequest {
    TaskRequest { idempotency_key: Some(key.to_owned()), ..command("chat", text) }
}

/// A store that fails once at a place, when it is told to.
fn failing(point: FaultPoint) -> (Arc<AtomicBool>, Faults) {
    let armed = Arc::<AtomicBool>::default();
    let trigger = Arc::clone(&armed);
    let faults = Faults::new(move |at| {
        let fails = at == point && trigger.swap(false, Ordering::SeqCst);
        fails.then(|| StoreError::Io { detail: "on purpose".to_owned() })
    });
    (armed, faults)
}

#[tokio::test(flavor = "multi_thread")]
async fn g01_an_answer_that_was_lost_after_the_commit_is_given_again() {
    let (armed, faults) = failing(FaultPoint::Answer);
    let talk = Talk::failing(faults).await;
    armed.store(true, Ordering::SeqCst);
    let lost = talk.engine.submit(&talk.namespace, keyed("k", "hello")).await;
    assert!(lost.is_err(), "the caller hears nothing of it");
    assert_eq!(talk.count("task").await, 1);
    let again = talk.another().submit(&talk.namespace, keyed("k", "hello")).await.unwrap();
    assert_eq!((again.deduped, again.outcome.as_str()), (true, "duplicate"));
    assert_eq!((talk.count("task").await, talk.count("run").await), (1, 1));
    let _worker = talk.worker().await;
    assert_eq!(talk.wait(again.run).await.status, "ok");
    assert_eq!(talk.mind.seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn g02_what_was_not_committed_left_nothing() {
    let (armed, faults) = failing(FaultPoint::Commit);
    let talk = Talk::failing(faults).await;
    let before = counts(&talk).await;
    armed.store(true, Ordering::SeqCst);
    let lost = talk.engine.submit(&talk.namespace, keyed("k", "hello")).await;
    assert!(lost.is_err());
    assert_eq!(counts(&talk).await, before, "{TABLES:?}");
    let accepted = talk.engine.submit(&talk.namespace, keyed("k", "hello")).await.unwrap();
    assert!(!accepted.deduped);
}

#[tokio::test(flavor = "multi_thread")]
async fn g03_a_hundred_calls_with_one_key_are_one_task() {
    let talk = Talk::new().await;
    let engines = [talk.engine.clone(), talk.another(), talk.another()];
    let calls = (0..100).map(|number| {
        let (engine, namespace) = (engines[number % 3].clone(), talk.namespace.clone());
        tokio::spawn(async move { engine.submit(&namespace, keyed("k", "hello")).await })
    });
    let mut answers = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        answers.push(call.await.unwrap().unwrap());
    }
    let first = answers.iter().filter(|answer| !answer.deduped).count();
    assert_eq!(first, 1, "99 are told that it was here before");
    let same = |answer: &provost_engine::Accepted| (answer.task, answer.run, answer.input);
    assert!(answers.iter().all(|answer| same(answer) == same(&answers[0])));
    let before = counts(&talk).await;
    assert_eq!(before[..3], [1, 1, 1]);
    let other = talk.engine.submit(&talk.namespace, keyed("k", "goodbye")).await.unwrap_err();
    assert_eq!(other.code(), "idempotency_mismatch");
    assert_eq!(counts(&talk).await, before, "without a side effect");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_counts_within_its_agent_and_its_method() {
    let talk = Talk::new().await;
    let config = AgentConfig::default();
    talk.engine.create_agent(&talk.namespace, "second", None, config).await.unwrap();
    let first = talk.engine.submit(&talk.namespace, keyed("k", "hello")).await.unwrap();
    let other = TaskRequest { agent: Some("second".to_owned()), ..keyed("k", "other") };
    let second = talk.engine.submit(&talk.namespace, other).await.unwrap();
    assert_ne!(first.task, second.task);
    let request = provost_engine::InputRequest::text("more").key("k");
    let said = talk.engine.inputs().send(&talk.namespace, first.task, request).await.unwrap();
    assert_eq!((said.deduped, said.outcome.as_str()), (false, "queued"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follow_up_is_remembered_like_any_command() {
    let talk = Talk::new().await;
    let first = talk.accept("chat", "hello").await;
    let once = talk.engine.submit(&talk.namespace, keyed("k", "more")).await.unwrap();
    let again = talk.engine.submit(&talk.namespace, keyed("k", "more")).await.unwrap();
    assert_eq!((once.task, once.outcome.as_str()), (first.task, "queued"));
    assert_eq!((again.run, again.input, again.deduped), (once.run, once.input, true));
    assert_eq!(talk.inputs(first.task).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_by_policy_is_remembered_and_what_may_pass_is_not() {
    let talk = Talk::new().await;
    let config =
        AgentConfig { policy: patch(json!({"security": "full"})), ..AgentConfig::default() };
    talk.engine.create_agent(&talk.namespace, "bold", None, config).await.unwrap();
    let bold = |key: &str| TaskRequest { agent: Some("bold".to_owned()), ..keyed(key, "go") };
    let before = counts(&talk).await;
    let refused = talk.engine.submit(&talk.namespace, bold("k")).await.unwrap_err();
    assert_eq!(refused.code(), "policy_unsupported");
    assert_eq!(counts(&talk).await, before);
    let meek = json!({"policy": {"security": "deny"}}).as_object().unwrap().clone();
    talk.engine.update_agent(&talk.namespace, "bold", meek).await.unwrap();
    let again = talk.engine.submit(&talk.namespace, bold("k")).await.unwrap_err();
    assert_eq!(again.to_string(), refused.to_string(), "the same answer to the same request");
    talk.engine.submit(&talk.namespace, bold("new")).await.unwrap();
    let missing = TaskRequest { agent: Some("late".to_owned()), ..keyed("k2", "go") };
    let unknown = talk.engine.submit(&talk.namespace, missing.clone()).await.unwrap_err();
    assert_eq!(unknown.code(), "not_found");
    let config = AgentConfig::default();
    talk.engine.create_agent(&talk.namespace, "late", None, config).await.unwrap();
    assert!(!talk.engine.submit(&talk.namespace, missing).await.unwrap().deduped);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_id_that_the_caller_chose_is_a_key() {
    let talk = Talk::new().await;
    let id = Env::system().id();
    let chosen = |text: &str| TaskRequest { run_id: Some(id), ..command("chat", text) };
    let first = talk.engine.submit(&talk.namespace, chosen("hello")).await.unwrap();
    assert_eq!((first.run, first.deduped), (id, false));
    let again = talk.engine.submit(&talk.namespace, chosen("hello")).await.unwrap();
    assert_eq!((again.task, again.run, again.deduped), (first.task, id, true));
    let other = talk.engine.submit(&talk.namespace, chosen("goodbye")).await.unwrap_err();
    assert_eq!(other.code(), "idempotency_mismatch");
    let taken = TaskRequest { run_id: Some(id), ..command("chat", "hello") };
    let foreign = "other".parse().unwrap();
    talk.engine.put_agent(&foreign, "default", None, AgentConfig::default()).await.unwrap();
    let refused = talk.engine.submit(&foreign, taken).await.unwrap_err();
    assert_eq!(refused.code(), "invalid", "nothing is told about what is there");
    let follow = Env::system().id();
    let more = TaskRequest { run_id: Some(follow), ..command("chat", "more") };
    let more = talk.engine.submit(&talk.namespace, more).await.unwrap();
    assert_eq!((more.run, more.task), (follow, first.task));
}
