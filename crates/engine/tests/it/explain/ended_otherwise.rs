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
use crate::cluster::{Cluster, quick};
use crate::harness::command;

const MINUTE: Duration = Duration::from_secs(60);

/// A worker whose lease outlives a jump of the clock.
async fn patient(cluster: &Cluster) -> provost_engine::Worker {
    cluster.node(EngineOptions { lease: 10 * MINUTE, ..quick() }).start().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_deadline_of_the_caller_or_its_own_time_was_over() {
    let cluster = gated().await;
    let _worker = patient(&cluster).await;
    let at = cluster.clock.now().after(MINUTE);
    let due = TaskRequest { deadline: Some(at), ..command("due", "go") };
    let due = cluster.accept(due).await.run;
    let short = TaskRequest { timeout_ms: Some(60_000), ..command("short", "go") };
    let short = cluster.accept(short).await.run;
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    gate.entered().await;
    cluster.clock.advance(2 * MINUTE);
    cluster.ended(due).await;
    named(&cluster, due, "ended_deadline", &[&due, &at.to_rfc3339(), &"its caller"]).await;
    cluster.ended(short).await;
    named(&cluster, short, "ended_timeout", &[&short, &"1 min"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_attempt_took_too_long_or_said_nothing() {
    let cluster = Cluster::new(vec![scripted::text("never").hang()]).await;
    let once = json!({"retry": {"max_attempts": 1}});
    cluster.agent("default", json!({"clocks": {"attempt_ms": 100}})).await;
    let worker = cluster.engine.start().await.unwrap();
    let run = cluster.say_with("slow", once.clone()).await.run;
    cluster.ended(run).await;
    named(&cluster, run, "ended_attempt_clock", &[&run, &"the model", &"0.1 s"]).await;
    worker.stop(Duration::ZERO).await;
    cluster.agent("default", json!({"clocks": {"silence_ms": 200}})).await;
    let _worker = cluster.engine.start().await.unwrap();
    let run = cluster.say_with("silent", once).await.run;
    cluster.ended(run).await;
    named(&cluster, run, "ended_silence", &[&run, &"the model produced no event", &"0.2 s"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_cancelled_it_or_took_the_message_back() {
    let cluster = gated().await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    cluster.rooms.gate("gate_pure").entered().await;
    let waiting = cluster.accept(behind("chat", "later")).await;
    cluster.engine.inputs().withdraw(&cluster.namespace, waiting.input).await.unwrap();
    let names: [&dyn std::fmt::Display; 2] = [&waiting.run, &"was withdrawn"];
    named(&cluster, waiting.run, "ended_message_withdrawn", &names).await;
    let waiting = cluster.accept(behind("chat", "later")).await.run;
    cluster.engine.runs().cancel(&cluster.namespace, waiting).await.unwrap();
    let names: [&dyn std::fmt::Display; 2] = [&waiting, &"before it started"];
    named(&cluster, waiting, "ended_cancelled_by_user", &names).await;
    cluster.engine.runs().cancel(&cluster.namespace, accepted.run).await.unwrap();
    cluster.ended(accepted.run).await;
    let names: [&dyn std::fmt::Display; 2] = [&accepted.run, &"while it was running"];
    let told = named(&cluster, accepted.run, "ended_cancelled_by_user", &names).await;
    // What it says to do can be done: a cancelled task is not tried again, it is spoken to.
    let reopen = format!("provost run send {} \"…\"", accepted.run);
    assert!(commands(&told).contains(&reopen.as_str()), "{told:#?}");
    cluster.engine.tasks().retry(&cluster.namespace, accepted.task).await.unwrap_err();
    let said = cluster
        .engine
        .inputs()
        .send(&cluster.namespace, accepted.run, InputRequest::text("go on"))
        .await;
    assert_ne!(said.unwrap().run, accepted.run);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_message_took_its_place() {
    let cluster = gated().await;
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.say("chat", "go").await;
    let gate = cluster.rooms.gate("gate_pure");
    gate.entered().await;
    let say = |text: &str, mode| {
        let request = InputRequest::text(text).mode(mode);
        cluster.engine.inputs().send(&cluster.namespace, accepted.task, request)
    };
    let waiting = say("later", InputMode::Followup).await.unwrap().run;
    let newest = say("instead", InputMode::Rollback).await.unwrap().run;
    cluster.ended(waiting).await;
    named(&cluster, waiting, "ended_message_gave_way", &[&waiting, &"replaced its message"]).await;
    cluster.ended(accepted.run).await;
    let names: [&dyn std::fmt::Display; 2] = [&accepted.run, &"newer input"];
    let told = named(&cluster, accepted.run, "ended_cancelled_by_interrupt", &names).await;
    assert_eq!(told.related, [newest.to_string()]);
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_said_no_or_nothing_to_its_start() {
    let cluster = Cluster::new(vec![scripted::text("hello")]).await;
    let config = json!({"approve_start": true, "policy": {"interactive": true}});
    cluster.agent("default", config).await;
    let _worker = cluster.engine.start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    let asked = cluster.questions().await[0].id;
    let no = ApprovalDecision::Deny { reason: "not now".to_owned() };
    cluster.engine.approvals().answer(&cluster.namespace, asked, no, "ann").await.unwrap();
    let names: [&dyn std::fmt::Display; 3] = [&run, &"ann denied", &"not now"];
    let told = named(&cluster, run, "ended_approval_denied", &names).await;
    assert_eq!(told.related, [asked.to_string()]);
    let run = cluster.say("other", "go").await.run;
    cluster.parked(run).await;
    cluster.clock.advance(30 * MINUTE);
    until(&cluster.engine, run, "ended_approval_expired").await;
    named(&cluster, run, "ended_approval_expired", &[&run, &"was not answered"]).await;
}
