//! Runs that a clock, a person or a newer message ended.

use std::time::Duration;

use provost_core::ApprovalDecision;
use provost_core::command::TaskRequest;
use provost_core::scheduling::InputMode;
use provost_engine::{EngineOptions, InputRequest};
use provost_model as scripted;
use serde_json::json;

use super::queued::{behind, gated};
use super::{commands, named, until};
use crate::house::{House, quick};
use crate::stage::command;

const MINUTE: Duration = Duration::from_secs(60);

/// A worker whose lease outlives a jump of the clock.
async fn patient(house: &House) -> provost_engine::Worker {
    house.node(EngineOptions { lease: 10 * MINUTE, ..quick() }).start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_of_the_caller_or_its_own_time_was_over() {
    let house = gated().await;
    let _worker = patient(&house).await;
    let at = house.clock.now().after(MINUTE);
    let due = TaskRequest { deadline: Some(at), ..command("due", "go") };
    let due = house.accept(due).await.run;
    let short = TaskRequest { timeout_ms: Some(60_000), ..command("short", "go") };
    let short = house.accept(short).await.run;
    let gate = house.rooms.gate("gate_pure");
    gate.entered().await;
    gate.entered().await;
    house.clock.advance(2 * MINUTE);
    house.ended(due).await;
    named(&house, due, "ended_deadline", &[&due, &at.to_rfc3339(), &"its caller"]).await;
    house.ended(short).await;
    named(&house, short, "ended_timeout", &[&short, &"1 min"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_attempt_took_too_long_or_said_nothing() {
    let house = House::new(vec![scripted::text("never").hang()]).await;
    let once = json!({"retry": {"max_attempts": 1}});
    house.agent("default", json!({"clocks": {"attempt_ms": 100}})).await;
    let worker = house.engine.start().await.unwrap();
    let run = house.say_with("slow", once.clone()).await.run;
    house.ended(run).await;
    named(&house, run, "ended_attempt_clock", &[&run, &"the model", &"0.1 s"]).await;
    worker.stop(Duration::ZERO).await;
    house.agent("default", json!({"clocks": {"silence_ms": 200}})).await;
    let _worker = house.engine.start().await.unwrap();
    let run = house.say_with("silent", once).await.run;
    house.ended(run).await;
    named(&house, run, "ended_silence", &[&run, &"the model said nothing", &"0.2 s"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_cancelled_it_or_took_the_message_back() {
    let house = gated().await;
    let _worker = house.engine.start().await.unwrap();
    let accepted = house.say("chat", "go").await;
    house.rooms.gate("gate_pure").entered().await;
    let waiting = house.accept(behind("chat", "later")).await;
    house.engine.inputs().withdraw(&house.namespace, waiting.input).await.unwrap();
    let names: [&dyn std::fmt::Display; 2] = [&waiting.run, &"was withdrawn"];
    named(&house, waiting.run, "ended_message_withdrawn", &names).await;
    let waiting = house.accept(behind("chat", "later")).await.run;
    house.engine.runs().cancel(&house.namespace, waiting).await.unwrap();
    let names: [&dyn std::fmt::Display; 2] = [&waiting, &"before it started"];
    named(&house, waiting, "ended_cancelled_by_user", &names).await;
    house.engine.runs().cancel(&house.namespace, accepted.run).await.unwrap();
    house.ended(accepted.run).await;
    let names: [&dyn std::fmt::Display; 2] = [&accepted.run, &"while it was running"];
    let told = named(&house, accepted.run, "ended_cancelled_by_user", &names).await;
    // What it says to do can be done: a cancelled task is not tried again, it is spoken to.
    let reopen = format!("provost runs input {} \"…\"", accepted.run);
    assert!(commands(&told).contains(&reopen.as_str()), "{told:#?}");
    house.engine.tasks().retry(&house.namespace, accepted.task).await.unwrap_err();
    let said = house
        .engine
        .inputs()
        .send(&house.namespace, accepted.run, InputRequest::text("go on"))
        .await;
    assert_ne!(said.unwrap().run, accepted.run);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_message_took_its_place() {
    let house = gated().await;
    let _worker = house.engine.start().await.unwrap();
    let accepted = house.say("chat", "go").await;
    let gate = house.rooms.gate("gate_pure");
    gate.entered().await;
    let say = |text: &str, mode| {
        let request = InputRequest::text(text).mode(mode);
        house.engine.inputs().send(&house.namespace, accepted.task, request)
    };
    let waiting = say("later", InputMode::Followup).await.unwrap().run;
    let newest = say("instead", InputMode::Rollback).await.unwrap().run;
    house.ended(waiting).await;
    named(&house, waiting, "ended_message_gave_way", &[&waiting, &"replaced its message"]).await;
    house.ended(accepted.run).await;
    let names: [&dyn std::fmt::Display; 2] = [&accepted.run, &"newer input"];
    let told = named(&house, accepted.run, "ended_cancelled_by_interrupt", &names).await;
    assert_eq!(told.related, [newest.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_said_no_or_nothing_to_its_start() {
    let house = House::new(vec![scripted::text("hello")]).await;
    let config = json!({"approve_start": true, "policy": {"interactive": true}});
    house.agent("default", config).await;
    let _worker = house.engine.start().await.unwrap();
    let run = house.say("chat", "go").await.run;
    let asked = house.questions().await[0].id;
    let no = ApprovalDecision::Deny { reason: "not now".to_owned() };
    house.engine.approvals().answer(&house.namespace, asked, no, "ann").await.unwrap();
    let names: [&dyn std::fmt::Display; 3] = [&run, &"ann denied", &"not now"];
    let told = named(&house, run, "ended_approval_denied", &names).await;
    assert_eq!(told.related, [asked.to_string()]);
    let run = house.say("other", "go").await.run;
    house.parked(run).await;
    house.clock.advance(30 * MINUTE);
    until(&house.engine, run, "ended_approval_expired").await;
    named(&house, run, "ended_approval_expired", &[&run, &"was not answered"]).await;
}
