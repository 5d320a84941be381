//! Questions of other kinds: what nobody knows, what the agent asks, and money.

use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_core::lifecycle::GrantScope;
use provost_core::recovery::UnknownEffectPolicy;
use provost_core::{ApprovalDecision, ApprovalId, RunId};
use provost_engine::{EngineOptions, Worker};
use provost_model::{self as scripted};
use provost_store::query;
use provost_store::table::governance::budget;
use provost_store::table::work::session;
use serde_json::json;

use crate::house::{House, cent, last_result, quick};
use crate::stage::{command, text};

/// An agent that calls one tool and then says what it was told.
async fn calls(tool: &'static str) -> House {
    House::answering(move |request, _| match last_result(request).as_str() {
        "" => scripted::call(tool, json!({})),
        result => scripted::text(format!("told: {result}")),
    })
    .await
}

async fn asked(house: &House, run: RunId, kind: &str) -> ApprovalId {
    house.parked(run).await;
    let questions = house.questions().await;
    assert_eq!(questions.len(), 1, "{questions:?}");
    assert_eq!((questions[0].run_id, questions[0].kind.as_str()), (run, kind));
    questions[0].id
}

/// A run whose opaque call was cut off by the end of its worker, and the worker that asks about it.
async fn cut_off(house: &House) -> (RunId, ApprovalId, Worker) {
    let options = EngineOptions { on_unknown: UnknownEffectPolicy::AskPerson, ..quick() };
    let node = house.node(options);
    let first = node.start().await.unwrap();
    let accepted = house.say("chat", "go").await;
    let gate = house.rooms.gate("gate_opaque");
    gate.entered().await;
    drop(first);
    gate.stopped().await;
    let worker = node.start().await.unwrap();
    let id = asked(house, accepted.run, "effect_unknown").await;
    (accepted.run, id, worker)
}

#[tokio::test(flavor = "multi_thread")]
async fn g15_an_unknown_effect_is_repeated_only_if_a_person_says_so() {
    let house = calls("gate_opaque").await;
    let (run, id, _worker) = cut_off(&house).await;
    house.rooms.gate("gate_opaque").open(1);
    house.engine.approvals().approve(&house.namespace, id, GrantScope::Once, "me").await.unwrap();
    assert_eq!(text(&house.ended(run).await), "told: gate_opaque did it");
    assert_eq!(house.rooms.calls("gate_opaque"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn g15_an_unknown_effect_that_is_denied_is_left() {
    let house = calls("gate_opaque").await;
    let (run, id, _worker) = cut_off(&house).await;
    let deny = ApprovalDecision::Deny { reason: String::new() };
    house.engine.approvals().answer(&house.namespace, id, deny, "me").await.unwrap();
    let row = house.ended(run).await;
    assert!(text(&row).contains("decided to leave it"), "{}", text(&row));
    assert_eq!(house.rooms.calls("gate_opaque"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn g15_a_person_may_say_what_came_of_an_unknown_effect() {
    let house = calls("gate_opaque").await;
    let (run, id, _worker) = cut_off(&house).await;
    house.engine.approvals().answer_text(&house.namespace, id, "it was paid", "me").await.unwrap();
    assert_eq!(text(&house.ended(run).await), "told: it was paid");
    assert_eq!(house.rooms.calls("gate_opaque"), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn g15_a_yes_is_good_for_one_repetition() {
    let house = calls("gate_opaque").await;
    let (run, id, worker) = cut_off(&house).await;
    house.engine.approvals().approve(&house.namespace, id, GrantScope::Once, "me").await.unwrap();
    let gate = house.rooms.gate("gate_opaque");
    gate.entered().await;
    drop(worker);
    gate.stopped().await;
    let options = EngineOptions { on_unknown: UnknownEffectPolicy::AskPerson, ..quick() };
    let _worker = house.node(options).start().await.unwrap();
    let again = asked(&house, run, "effect_unknown").await;
    assert_ne!(again, id, "it is asked about the second try as well");
    house.engine.approvals().answer_text(&house.namespace, again, "twice", "me").await.unwrap();
    assert_eq!(text(&house.ended(run).await), "told: twice");
    assert_eq!(house.rooms.calls("gate_opaque"), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn g15_the_approval_of_a_call_is_not_a_yes_to_its_repetition() {
    let house = calls("careful").await;
    let options = EngineOptions { on_unknown: UnknownEffectPolicy::AskPerson, ..quick() };
    let _worker = house.node(options).start().await.unwrap();
    let accepted = house.say("chat", "go").await;
    let id = asked(&house, accepted.run, "tool").await;
    // The call is begun and cut off before anybody answers, as a crash after the question would leave it.
    house.meddle("UPDATE run_step SET state = 'unknown' WHERE name = 'careful'").await;
    house.engine.approvals().approve(&house.namespace, id, GrantScope::Once, "me").await.unwrap();
    asked(&house, accepted.run, "effect_unknown").await;
    assert_eq!(house.rooms.calls("careful"), 0);
}

fn question() -> scripted::Turn {
    let question = json!({"question": "Which colour?", "options": ["red", "blue"]});
    scripted::call("ask_user", json!({"questions": [question]}))
}

async fn asks() -> House {
    House::answering(|request, _| {
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
    let house = asks().await;
    let _worker = house.engine.start().await.unwrap();
    let accepted = house.say("chat", "paint it").await;
    let id = asked(&house, accepted.run, "question").await;
    let run = house.run(accepted.run).await;
    assert_eq!((run.parked_for.as_deref(), run.holds_session), (Some("question"), false));
    let task =
        query::task::get(house.engine.store(), &house.namespace, accepted.task).await.unwrap();
    assert_eq!((task.state.as_str(), task.waiting_for.as_deref()), ("waiting", Some("question")));
    // Another task of the session goes on meanwhile.
    let mut other = command("chat", "chat");
    other.new_task = true;
    let other = house.accept(other).await;
    assert_eq!(text(&house.ended(other.run).await), "just chatting");
    house.engine.approvals().answer_text(&house.namespace, id, "blue", "me").await.unwrap();
    let run = house.ended(accepted.run).await;
    assert_eq!((run.status.as_str(), text(&run).as_str()), ("ok", "told: blue"));
    let namespace = house.namespace.to_string();
    let row = house.store.read(move |tx| session::get(tx, &namespace, "chat")).await.unwrap();
    assert_eq!(row.unwrap().next_entry, 7, "two messages of the one, four of the other");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_nobody_answers_ends_with_no_answer() {
    let house = asks().await;
    let _worker = house.engine.start().await.unwrap();
    let accepted = house.accept(TaskRequest { timeout_ms: Some(0), ..command("s", "paint") }).await;
    house.parked(accepted.run).await;
    house.clock.advance(Duration::from_secs(900));
    let run = house.ended(accepted.run).await;
    assert!(text(&run).starts_with("told: no_answer"), "{}", text(&run));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_can_be_declined_and_takes_no_plain_yes() {
    let house = asks().await;
    let _worker = house.engine.start().await.unwrap();
    let accepted = house.say("s", "paint").await;
    let id = asked(&house, accepted.run, "question").await;
    let yes = house
        .engine
        .approvals()
        .approve(&house.namespace, id, GrantScope::Once, "me")
        .await
        .unwrap_err();
    assert_eq!(yes.code(), "invalid");
    let deny = ApprovalDecision::Deny { reason: "none of your business".to_owned() };
    house.engine.approvals().answer(&house.namespace, id, deny, "me").await.unwrap();
    let run = house.ended(accepted.run).await;
    assert!(text(&run).contains("did not want to answer: none of"), "{}", text(&run));
}

async fn poor() -> (House, TaskRequest) {
    let house = House::answering(|request, _| match last_result(request).as_str() {
        "" => scripted::call("pure", json!({})).usage(cent()),
        result => scripted::text(format!("told: {result}")).usage(cent()),
    })
    .await;
    // Enough for the first call, which costs a cent, and not for a second one.
    let budget = serde_json::from_value(json!({"amount": "0.0105", "currency": "USD"})).unwrap();
    let command = TaskRequest { budget: Some(budget), ..command("chat", "go") };
    (house, command)
}

#[tokio::test(flavor = "multi_thread")]
async fn g41_money_that_is_spent_is_asked_for_before_the_next_call() {
    let (house, command) = poor().await;
    let _worker = house.engine.start().await.unwrap();
    let accepted = house.accept(command).await;
    let id = asked(&house, accepted.run, "budget_raise").await;
    assert_eq!(house.rooms.model_calls(), 1, "the second call was not sent");
    let run = house.run(accepted.run).await;
    assert_eq!((run.parked_for.as_deref(), run.lease_owner), (Some("budget"), None));
    house.engine.approvals().approve(&house.namespace, id, GrantScope::Once, "me").await.unwrap();
    assert_eq!(house.ended(accepted.run).await.status, "ok");
    let (namespace, scope) = (house.namespace.to_string(), format!("task:{}", accepted.task));
    let row = house.store.read(move |tx| budget::get(tx, &namespace, &scope)).await.unwrap();
    let row = row.unwrap();
    assert_eq!((row.cap_micros, row.reserved_micros), (21_000, 0));
    assert_eq!(row.spent_micros, 20_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn g41_without_more_money_a_run_ends() {
    let (house, command) = poor().await;
    let _worker = house.engine.start().await.unwrap();
    let denied = house.accept(command.clone()).await;
    let id = asked(&house, denied.run, "budget_raise").await;
    let deny = ApprovalDecision::Deny { reason: "too dear".to_owned() };
    house.engine.approvals().answer(&house.namespace, id, deny, "me").await.unwrap();
    let run = house.ended(denied.run).await;
    assert_eq!((run.status.as_str(), run.outcome_code.as_deref()), ("error", Some("budget")));
    house.agent("default", json!({"policy": {"interactive": false}})).await;
    let mut headless = command;
    headless.session_id = Some("other".parse().unwrap());
    let headless = house.accept(headless).await;
    let run = house.ended(headless.run).await;
    assert_eq!((run.status.as_str(), run.outcome_code.as_deref()), ("error", Some("budget")));
    assert_eq!(house.rooms.model_calls(), 2);
}
