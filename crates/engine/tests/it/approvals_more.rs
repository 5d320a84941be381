//! Questions of other kinds: what nobody knows, what the agent asks, and money.

use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_core::lifecycle::{GrantScope, RunStatus, WaitReason};
use provost_core::recovery::{OutcomeCode, UnknownEffectPolicy};
use provost_core::{ApprovalDecision, ApprovalId, RunId};
use provost_engine::{EngineOptions, Worker};
use provost_model::{self as scripted};
use provost_store::query;
use provost_store::table::governance::budget;
use provost_store::table::work::session;
use serde_json::json;

use crate::cluster::{Cluster, cent, last_result, quick};
use crate::harness::{command, text};

/// An agent that calls one tool and then says what it was told.
async fn calls(tool: &'static str) -> Cluster {
    Cluster::answering(move |request, _| match last_result(request).as_str() {
        "" => scripted::call(tool, json!({})),
        result => scripted::text(format!("told: {result}")),
    })
    .await
}

async fn asked(cluster: &Cluster, run: RunId, kind: &str) -> ApprovalId {
    cluster.parked(run).await;
    let questions = cluster.questions().await;
    assert_eq!(questions.len(), 1, "{questions:?}");
    assert_eq!((questions[0].run_id, questions[0].kind.as_str()), (run, kind));
    questions[0].id
}

/// A run whose opaque call was cut off by the end of its worker, and the worker that asks about it.
async fn cut_off(cluster: &Cluster) -> (RunId, ApprovalId, Worker) {
    let options = EngineOptions { on_unknown: UnknownEffectPolicy::AskPerson, ..quick() };
    let node = cluster.node(options);
    let first = node.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    let gate = cluster.rooms.gate("gate_opaque");
    gate.entered().await;
    drop(first);
    gate.stopped().await;
    let worker = node.start().await.unwrap();
    let id = asked(cluster, accepted.run, "effect_unknown").await;
    (accepted.run, id, worker)
}

#[tokio::test(flavor = "multi_thread")]
async fn g15_an_unknown_effect_is_repeated_only_if_a_person_says_so() {
    let cluster = calls("gate_opaque").await;
    let (run, id, _worker) = cut_off(&cluster).await;
    cluster.rooms.gate("gate_opaque").open(1);
    cluster
        .engine
        .approvals()
        .approve(&cluster.namespace, id, GrantScope::Once, "me")
        .await
        .unwrap();
    assert_eq!(text(&cluster.ended(run).await), "told: gate_opaque did it");
    assert_eq!(cluster.rooms.calls("gate_opaque"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn g15_an_unknown_effect_that_is_denied_is_left() {
    let cluster = calls("gate_opaque").await;
    let (run, id, _worker) = cut_off(&cluster).await;
    let deny = ApprovalDecision::Deny { reason: String::new() };
    cluster.engine.approvals().answer(&cluster.namespace, id, deny, "me").await.unwrap();
    let row = cluster.ended(run).await;
    assert!(text(&row).contains("decided not to"), "{}", text(&row));
    assert_eq!(cluster.rooms.calls("gate_opaque"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn g15_a_person_may_say_what_came_of_an_unknown_effect() {
    let cluster = calls("gate_opaque").await;
    let (run, id, _worker) = cut_off(&cluster).await;
    cluster
        .engine
        .approvals()
        .answer_text(&cluster.namespace, id, "it was paid", "me")
        .await
        .unwrap();
    assert_eq!(text(&cluster.ended(run).await), "told: it was paid");
    assert_eq!(cluster.rooms.calls("gate_opaque"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn g15_a_yes_is_good_for_one_repetition() {
    let cluster = calls("gate_opaque").await;
    let (run, id, worker) = cut_off(&cluster).await;
    cluster
        .engine
        .approvals()
        .approve(&cluster.namespace, id, GrantScope::Once, "me")
        .await
        .unwrap();
    let gate = cluster.rooms.gate("gate_opaque");
    gate.entered().await;
    drop(worker);
    gate.stopped().await;
    let options = EngineOptions { on_unknown: UnknownEffectPolicy::AskPerson, ..quick() };
    let _worker = cluster.node(options).start().await.unwrap();
    let again = asked(&cluster, run, "effect_unknown").await;
    assert_ne!(again, id, "it is asked about the second try as well");
    cluster.engine.approvals().answer_text(&cluster.namespace, again, "twice", "me").await.unwrap();
    assert_eq!(text(&cluster.ended(run).await), "told: twice");
    assert_eq!(cluster.rooms.calls("gate_opaque"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn g15_the_approval_of_a_call_is_not_a_yes_to_its_repetition() {
    let cluster = calls("careful").await;
    let options = EngineOptions { on_unknown: UnknownEffectPolicy::AskPerson, ..quick() };
    let _worker = cluster.node(options).start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    let id = asked(&cluster, accepted.run, "tool").await;
    // The call is begun and cut off before anybody answers, as a crash after the question would leave it.
    cluster.meddle("UPDATE run_step SET state = 'unknown' WHERE name = 'careful'").await;
    cluster
        .engine
        .approvals()
        .approve(&cluster.namespace, id, GrantScope::Once, "me")
        .await
        .unwrap();
    asked(&cluster, accepted.run, "effect_unknown").await;
    assert_eq!(cluster.rooms.calls("careful"), 0);
}

fn question() -> scripted::ScriptedTurn {
    let question = json!({"question": "Which colour?", "options": ["red", "blue"]});
    scripted::call("ask_user", json!({"questions": [question]}))
}

async fn asks() -> Cluster {
    Cluster::answering(|request, _| {
        let said = request.messages.iter().rev().find(|m| m.role == provost_core::Role::User);
        match (last_result(request).as_str(), said.map(|said| said.text()).as_deref()) {
            (_, Some("chat")) => scripted::text("just chatting"),
            ("", _) => question(),
            (result, _) => scripted::text(format!("told: {result}")),
        }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_frees_the_session_and_its_answer_is_the_result() {
    let cluster = asks().await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "paint it").await;
    let id = asked(&cluster, accepted.run, "question").await;
    let run = cluster.run(accepted.run).await;
    assert_eq!(
        (run.parked_for.map(WaitReason::as_str), run.holds_session),
        (Some("question"), false)
    );
    let task =
        query::task::get(cluster.engine.store(), &cluster.namespace, accepted.task).await.unwrap();
    assert_eq!(
        (task.state.as_str(), task.waiting_for.map(WaitReason::as_str)),
        ("waiting", Some("question"))
    );
    // Another task of the session goes on meanwhile.
    let mut other = command("chat", "chat");
    other.new_task = true;
    let other = cluster.accept(other).await;
    assert_eq!(text(&cluster.ended(other.run).await), "just chatting");
    cluster.engine.approvals().answer_text(&cluster.namespace, id, "blue", "me").await.unwrap();
    let run = cluster.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), text(&run).as_str()), ("ok", "told: blue"));
    let namespace = cluster.namespace.to_string();
    let row = cluster.store.read(move |tx| session::get(tx, &namespace, "chat")).await.unwrap();
    assert_eq!(row.unwrap().next_entry, 7, "two messages of the one, four of the other");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_nobody_answers_ends_with_no_answer() {
    let cluster = asks().await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted =
        cluster.accept(TaskRequest { timeout_ms: Some(0), ..command("s", "paint") }).await;
    cluster.parked(accepted.run).await;
    cluster.clock.advance(Duration::from_secs(900));
    let run = cluster.ended(accepted.run).await;
    assert!(text(&run).starts_with("told: no_answer"), "{}", text(&run));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_can_be_declined_and_takes_no_plain_yes() {
    let cluster = asks().await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("s", "paint").await;
    let id = asked(&cluster, accepted.run, "question").await;
    let yes = cluster
        .engine
        .approvals()
        .approve(&cluster.namespace, id, GrantScope::Once, "me")
        .await
        .unwrap_err();
    assert_eq!(yes.code(), "invalid");
    let deny = ApprovalDecision::Deny { reason: "none of your business".to_owned() };
    cluster.engine.approvals().answer(&cluster.namespace, id, deny, "me").await.unwrap();
    let run = cluster.ended(accepted.run).await;
    assert!(text(&run).contains("declined to answer: none of"), "{}", text(&run));
}

async fn poor() -> (Cluster, TaskRequest) {
    let cluster = Cluster::answering(|request, _| match last_result(request).as_str() {
        "" => scripted::call("pure", json!({})).usage(cent()),
        result => scripted::text(format!("told: {result}")).usage(cent()),
    })
    .await;
    // Enough for the first call, which costs a cent, and not for a second one.
    let budget = serde_json::from_value(json!({"amount": "0.0105", "currency": "USD"})).unwrap();
    let command = TaskRequest { budget: Some(budget), ..command("chat", "go") };
    (cluster, command)
}

#[tokio::test(flavor = "multi_thread")]
async fn g41_money_that_is_spent_is_asked_for_before_the_next_call() {
    let (cluster, command) = poor().await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.accept(command).await;
    let id = asked(&cluster, accepted.run, "budget_raise").await;
    assert_eq!(cluster.rooms.model_calls(), 1, "the second call was not sent");
    let run = cluster.run(accepted.run).await;
    assert_eq!((run.parked_for.map(WaitReason::as_str), run.lease_owner), (Some("budget"), None));
    cluster
        .engine
        .approvals()
        .approve(&cluster.namespace, id, GrantScope::Once, "me")
        .await
        .unwrap();
    assert_eq!(cluster.ended(accepted.run).await.status, RunStatus::Ok);
    let (namespace, scope) = (cluster.namespace.to_string(), format!("task:{}", accepted.task));
    let row = cluster.store.read(move |tx| budget::get(tx, &namespace, &scope)).await.unwrap();
    let row = row.unwrap();
    assert_eq!((row.cap_micros, row.reserved_micros), (21_000, 0));
    assert_eq!(row.spent_micros, 20_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn g41_without_more_money_a_run_ends() {
    let (cluster, command) = poor().await;
    let _worker = cluster.engine.start().await.unwrap();
    let denied = cluster.accept(command.clone()).await;
    let id = asked(&cluster, denied.run, "budget_raise").await;
    let deny = ApprovalDecision::Deny { reason: "too dear".to_owned() };
    cluster.engine.approvals().answer(&cluster.namespace, id, deny, "me").await.unwrap();
    let run = cluster.ended(denied.run).await;
    assert_eq!(
        (run.status.as_str(), run.outcome_code.map(OutcomeCode::as_str)),
        ("error", Some("budget"))
    );
    cluster.agent("default", json!({"policy": {"interactive": false}})).await;
    let mut headless = command;
    headless.session_id = Some("other".parse().unwrap());
    let headless = cluster.accept(headless).await;
    let run = cluster.ended(headless.run).await;
    assert_eq!(
        (run.status.as_str(), run.outcome_code.map(OutcomeCode::as_str)),
        ("error", Some("budget"))
    );
    assert_eq!(cluster.rooms.model_calls(), 2);
}
