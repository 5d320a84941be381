//! The same request gets the same answer, whatever the caller repeats and whoever hears it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use provost_core::Env;
use provost_core::command::TaskRequest;
use provost_core::lifecycle::RunStatus;
use provost_core::resource::AgentSpec;
use provost_store::{FaultInjector, FaultPoint, StoreError};
use serde_json::json;

use crate::conversations::Conversation;
use crate::harness::{command, patch};

const TABLES: [&str; 8] =
    ["task", "run", "input", "message", "session", "run_event", "outbox", "timer"];

async fn counts(conversation: &Conversation) -> Vec<u64> {
    let mut counts = Vec::new();
    for table in TABLES {
        counts.push(conversation.count(table).await);
    }
    counts
}

fn keyed(key: &str, text: &str) -> TaskRequest {
    TaskRequest { idempotency_key: Some(key.to_owned()), ..command("chat", text) }
}

/// A store that fails once at a place, when it is told to.
fn failing(point: FaultPoint) -> (Arc<AtomicBool>, FaultInjector) {
    let armed = Arc::<AtomicBool>::default();
    let trigger = Arc::clone(&armed);
    let faults = FaultInjector::new(move |at| {
        let fails = at == point && trigger.swap(false, Ordering::SeqCst);
        fails.then(|| StoreError::Io { detail: "on purpose".to_owned() })
    });
    (armed, faults)
}

#[tokio::test(flavor = "multi_thread")]
async fn g01_an_answer_that_was_lost_after_the_commit_is_given_again() {
    let (armed, faults) = failing(FaultPoint::AfterCommit);
    let conversation = Conversation::failing(faults).await;
    armed.store(true, Ordering::SeqCst);
    let lost = conversation.engine.submit(&conversation.namespace, keyed("k", "hello")).await;
    assert!(lost.is_err(), "the caller hears nothing of it");
    assert_eq!(conversation.count("task").await, 1);
    let again =
        conversation.another().submit(&conversation.namespace, keyed("k", "hello")).await.unwrap();
    assert_eq!((again.deduped, again.outcome.as_str()), (true, "duplicate"));
    assert_eq!((conversation.count("task").await, conversation.count("run").await), (1, 1));
    let _worker = conversation.worker().await;
    assert_eq!(conversation.wait(again.run).await.status, RunStatus::Ok);
    assert_eq!(conversation.mind.seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn g02_what_was_not_committed_left_nothing() {
    let (armed, faults) = failing(FaultPoint::Commit);
    let conversation = Conversation::failing(faults).await;
    let before = counts(&conversation).await;
    armed.store(true, Ordering::SeqCst);
    let lost = conversation.engine.submit(&conversation.namespace, keyed("k", "hello")).await;
    assert!(lost.is_err());
    assert_eq!(counts(&conversation).await, before, "{TABLES:?}");
    let accepted =
        conversation.engine.submit(&conversation.namespace, keyed("k", "hello")).await.unwrap();
    assert!(!accepted.deduped);
}

#[tokio::test(flavor = "multi_thread")]
async fn g03_a_hundred_calls_with_one_key_are_one_task() {
    let conversation = Conversation::new().await;
    let engines = [conversation.engine.clone(), conversation.another(), conversation.another()];
    let calls = (0..100).map(|number| {
        let (engine, namespace) = (engines[number % 3].clone(), conversation.namespace.clone());
        tokio::spawn(async move { engine.submit(&namespace, keyed("k", "hello")).await })
    });
    let mut answers = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        answers.push(call.await.unwrap().unwrap());
    }
    let first = answers.iter().filter(|answer| !answer.deduped).count();
    assert_eq!(first, 1, "99 are told that it was here before");
    let same = |answer: &provost_engine::SubmitReceipt| (answer.task, answer.run, answer.input);
    assert!(answers.iter().all(|answer| same(answer) == same(&answers[0])));
    let before = counts(&conversation).await;
    assert_eq!(before[..3], [1, 1, 1]);
    let other = conversation
        .engine
        .submit(&conversation.namespace, keyed("k", "goodbye"))
        .await
        .unwrap_err();
    assert_eq!(other.code(), "idempotency_mismatch");
    assert_eq!(counts(&conversation).await, before, "without a side effect");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_counts_within_its_agent_and_its_method() {
    let conversation = Conversation::new().await;
    let config = AgentSpec::default();
    conversation
        .engine
        .create_agent(&conversation.namespace, "second", None, config)
        .await
        .unwrap();
    let first =
        conversation.engine.submit(&conversation.namespace, keyed("k", "hello")).await.unwrap();
    let other = TaskRequest { agent: Some("second".to_owned()), ..keyed("k", "other") };
    let second = conversation.engine.submit(&conversation.namespace, other).await.unwrap();
    assert_ne!(first.task, second.task);
    let request = provost_engine::InputRequest::text("more").key("k");
    let said = conversation
        .engine
        .inputs()
        .send(&conversation.namespace, first.task, request)
        .await
        .unwrap();
    assert_eq!((said.deduped, said.outcome.as_str()), (false, "queued"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follow_up_is_remembered_like_any_command() {
    let conversation = Conversation::new().await;
    let first = conversation.accept("chat", "hello").await;
    let once =
        conversation.engine.submit(&conversation.namespace, keyed("k", "more")).await.unwrap();
    let again =
        conversation.engine.submit(&conversation.namespace, keyed("k", "more")).await.unwrap();
    assert_eq!((once.task, once.outcome.as_str()), (first.task, "queued"));
    assert_eq!((again.run, again.input, again.deduped), (once.run, once.input, true));
    assert_eq!(conversation.inputs(first.task).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_by_policy_is_remembered_and_what_may_pass_is_not() {
    let conversation = Conversation::new().await;
    let config = AgentSpec { policy: patch(json!({"security": "full"})), ..AgentSpec::default() };
    conversation.engine.create_agent(&conversation.namespace, "bold", None, config).await.unwrap();
    let bold = |key: &str| TaskRequest { agent: Some("bold".to_owned()), ..keyed(key, "go") };
    let before = counts(&conversation).await;
    let refused = conversation.engine.submit(&conversation.namespace, bold("k")).await.unwrap_err();
    assert_eq!(refused.code(), "policy_unsupported");
    assert_eq!(counts(&conversation).await, before);
    let meek = json!({"policy": {"security": "deny"}}).as_object().unwrap().clone();
    conversation.engine.update_agent(&conversation.namespace, "bold", meek).await.unwrap();
    let again = conversation.engine.submit(&conversation.namespace, bold("k")).await.unwrap_err();
    assert_eq!(again.to_string(), refused.to_string(), "the same answer to the same request");
    conversation.engine.submit(&conversation.namespace, bold("new")).await.unwrap();
    let missing = TaskRequest { agent: Some("late".to_owned()), ..keyed("k2", "go") };
    let unknown =
        conversation.engine.submit(&conversation.namespace, missing.clone()).await.unwrap_err();
    assert_eq!(unknown.code(), "not_found");
    let config = AgentSpec::default();
    conversation.engine.create_agent(&conversation.namespace, "late", None, config).await.unwrap();
    assert!(!conversation.engine.submit(&conversation.namespace, missing).await.unwrap().deduped);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_id_that_the_caller_chose_is_a_key() {
    let conversation = Conversation::new().await;
    let id = Env::system().id();
    let chosen = |text: &str| TaskRequest { run_id: Some(id), ..command("chat", text) };
    let first = conversation.engine.submit(&conversation.namespace, chosen("hello")).await.unwrap();
    assert_eq!((first.run, first.deduped), (id, false));
    let again = conversation.engine.submit(&conversation.namespace, chosen("hello")).await.unwrap();
    assert_eq!((again.task, again.run, again.deduped), (first.task, id, true));
    let other =
        conversation.engine.submit(&conversation.namespace, chosen("goodbye")).await.unwrap_err();
    assert_eq!(other.code(), "idempotency_mismatch");
    let taken = TaskRequest { run_id: Some(id), ..command("chat", "hello") };
    let foreign = "other".parse().unwrap();
    conversation.engine.put_agent(&foreign, "default", None, AgentSpec::default()).await.unwrap();
    let refused = conversation.engine.submit(&foreign, taken).await.unwrap_err();
    assert_eq!(refused.code(), "invalid", "nothing is told about what is there");
    let follow = Env::system().id();
    let more = TaskRequest { run_id: Some(follow), ..command("chat", "more") };
    let more = conversation.engine.submit(&conversation.namespace, more).await.unwrap();
    assert_eq!((more.run, more.task), (follow, first.task));
}
