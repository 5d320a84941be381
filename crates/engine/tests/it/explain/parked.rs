//! Runs that wait for people, for children, for money, for an operator.

use std::sync::Arc;
use std::time::Duration;

use provost_core::command::TaskRequest;
use provost_core::recovery::UnknownEffectPolicy;
use provost_core::{Env, RunId};
use provost_engine::EngineOptions;
use provost_model::{self as scripted, ModelErrorClass};
use provost_store::table::work::run;
use serde_json::json;
use tokio::sync::Semaphore;

use super::{commands, named, named_by};
use crate::children::{crew_with, first_words, results, until_phase};
use crate::cluster::{Cluster, cent, last_result, quick};
use crate::harness::{command, options};

/// A run that waits because of one call, and its question.
async fn asking(tool: &'static str) -> (Cluster, provost_engine::Worker, RunId, String) {
    let cluster = Cluster::new(vec![scripted::call(tool, json!({}))]).await;
    let worker = cluster.engine.start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    cluster.parked(run).await;
    let asked = cluster.questions().await[0].id.to_string();
    (cluster, worker, run, asked)
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_must_approve_a_call() {
    let (cluster, worker, run, asked) = asking("risky").await;
    let names: [&dyn std::fmt::Display; 4] = [&run, &asked, &"`risky`", &"in 30 min"];
    let told = named(&cluster, run, "parked_tool_approval", &names).await;
    assert_eq!(told.state, "parked for approval");
    let wanted =
        [format!("provost approval approve {asked}"), format!("provost approval deny {asked}")];
    assert_eq!(commands(&told)[..2], wanted);
    assert_eq!(told.related, [asked.as_str()]);
    // Nobody answers, and nobody is there who would settle it.
    worker.stop(Duration::ZERO).await;
    cluster.clock.advance(Duration::from_secs(40 * 60));
    cluster.meddle("UPDATE run SET deadline = NULL").await;
    named(&cluster, run, "parked_answer_overdue", &[&run, &asked, &"10 min ago"]).await;
    named(&cluster, &asked, "approval_overdue", &[&run, &"10 min ago", &"`risky`"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_must_approve_a_plan_and_then_nothing_is_asked_any_more() {
    let (cluster, _worker, run, asked) = asking("risky").await;
    cluster.meddle("UPDATE approval SET kind = 'plan'").await;
    named(&cluster, run, "parked_plan_approval", &[&run, &asked, &"its plan"]).await;
    cluster.meddle("UPDATE approval SET state = 'cancelled'").await;
    named(&cluster, run, "parked_for_nothing", &[&run, &"approval", &"nothing would wake it"])
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_must_approve_the_start() {
    let cluster = Cluster::new(vec![scripted::text("hello")]).await;
    let config = json!({"approve_start": true, "policy": {"interactive": true}});
    cluster.agent("default", config).await;
    let run = cluster.say("chat", "go").await.run;
    let asked = cluster.questions().await[0].id;
    named(&cluster, run, "parked_start_approval", &[&run, &asked, &"before it starts"]).await;
    named(&cluster, asked, "approval_open", &[&run, &"may it start?", &"in 30 min"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_must_say_what_came_of_a_call() {
    let cluster = Cluster::new(vec![scripted::call("gate_opaque", json!({}))]).await;
    let node =
        cluster.node(EngineOptions { on_unknown: UnknownEffectPolicy::AskPerson, ..quick() });
    let first = node.start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    let gate = cluster.rooms.gate("gate_opaque");
    gate.entered().await;
    drop(first);
    gate.stopped().await;
    let _worker = node.start().await.unwrap();
    cluster.parked(run).await;
    let asked = cluster.questions().await[0].id;
    let names: [&dyn std::fmt::Display; 4] = [&run, &asked, &"`gate_opaque`", &"interrupted"];
    named(&cluster, run, "parked_effect_unclear", &names).await;
    named(&cluster, asked, "approval_open", &[&"may `gate_opaque` run again"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_agent_asked_a_person() {
    let question = json!({"questions": [{"question": "Which colour?"}]});
    let cluster = Cluster::new(vec![scripted::call("ask_user", question)]).await;
    let _worker = cluster.engine.start().await.unwrap();
    let run = cluster.say("chat", "go").await.run;
    cluster.parked(run).await;
    let asked = cluster.questions().await[0].id;
    let told = named(&cluster, run, "parked_question", &[&run, &asked, &"Which colour?"]).await;
    assert_eq!(commands(&told)[0], format!("provost run send {run} \"…\""));
    named(&cluster, asked, "approval_open", &[&"Which colour?", &"without an answer"]).await;
    let names: [&dyn std::fmt::Display; 3] = [&run, &"`chat` is free", &"parked for question"];
    named(&cluster, "chat", "session_waits_aside", &names).await;
    cluster.engine.approvals().answer_text(&cluster.namespace, asked, "blue", "ann").await.unwrap();
    named(&cluster, asked, "approval_answered", &[&run, &"ann", &"blue"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn its_money_is_spent_and_nobody_gives_more() {
    let cluster = Cluster::answering(|request, _| match last_result(request).as_str() {
        "" => scripted::call("pure", json!({})).usage(cent()),
        result => scripted::text(format!("told: {result}")).usage(cent()),
    })
    .await;
    let budget = serde_json::from_value(json!({"amount": "0.0105", "currency": "USD"})).unwrap();
    let poor = TaskRequest { budget: Some(budget), ..command("chat", "go") };
    let _worker = cluster.engine.start().await.unwrap();
    let accepted = cluster.accept(poor).await;
    cluster.parked(accepted.run).await;
    let asked = cluster.questions().await[0].id;
    let scope = format!("task:{}", accepted.task);
    let names: [&dyn std::fmt::Display; 4] =
        [&accepted.run, &asked, &"0.0005 USD of 0.0105 USD", &scope];
    named(&cluster, accepted.run, "parked_budget", &names).await;
    let no = provost_core::ApprovalDecision::Deny { reason: "too dear".to_owned() };
    cluster.engine.approvals().answer(&cluster.namespace, asked, no, "ann").await.unwrap();
    cluster.ended(accepted.run).await;
    let told = named(&cluster, accepted.run, "ended_budget", &[&accepted.run, &"budget"]).await;
    let seen = told.evidence.iter().find(|seen| seen.what.contains(&scope)).unwrap();
    assert_eq!(seen.value, "0.01 USD of 0.0105 USD spent");
    named(&cluster, asked, "approval_denied", &[&"ann denied", &"too dear"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn its_children_have_not_ended_and_end_with_it() {
    let gate = Arc::new(Semaphore::new(0));
    let harness = crew_with(options(), Env::system(), Arc::clone(&gate), |request| {
        match (first_words(request).as_str(), results(request).as_slice()) {
            ("work", []) => scripted::call("hold", json!({})),
            ("work", _) => scripted::text("worked"),
            (_, []) => scripted::call("spawn_task", json!({"message": "work"})),
            (_, [spawned]) => scripted::call("await_tasks", json!({"runs": [spawned["run"]]})),
            _ => scripted::text("done"),
        }
    })
    .await;
    let _worker = harness.worker().await;
    let parent = harness.say("chat", "lead").await.run;
    until_phase(&harness, parent, "parked").await;
    let children = harness.engine.store().read(move |tx| run::children(tx, parent)).await.unwrap();
    let child = children[0].id;
    until_phase(&harness, child, "leased").await;
    let told =
        named_by(&harness.engine, parent, "parked_children", &[&parent, &child, &"leased"]).await;
    assert_eq!(told.related, [child.to_string()]);
    harness.engine.runs().cancel(&harness.namespace, parent).await.unwrap();
    harness.wait(child).await;
    let told =
        named_by(&harness.engine, child, "ended_cancelled_by_parent", &[&child, &parent]).await;
    assert_eq!(told.related, [parent.to_string()]);
    named_by(&harness.engine, parent, "ended_cancelled_by_user", &[&parent, &"A user"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn its_tries_are_used_up_and_an_operator_wants_to_look() {
    let cluster =
        Cluster::answering(|_, _| scripted::fail(ModelErrorClass::Overloaded, "too many people"))
            .await;
    let _worker = cluster.engine.start().await.unwrap();
    let policy = json!({"retry": {"max_attempts": 2, "delay_ms": 0, "pause_at_end": true}});
    let run = cluster.say_with("chat", policy).await.run;
    cluster.parked(run).await;
    let names: [&dyn std::fmt::Display; 4] =
        [&run, &"2 tries", &"provider_overloaded", &"too many people"];
    let told = named(&cluster, run, "parked_retries_used_up", &names).await;
    assert_eq!(commands(&told)[0], format!("provost run resume {run}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_crashed_again_and_again_and_an_operator_wants_to_look() {
    let cluster = Cluster::new(vec![scripted::call("gate_pure", json!({}))]).await;
    let run = cluster.say_with("chat", json!({"retry": {"pause_at_end": true}})).await.run;
    let gate = cluster.rooms.gate("gate_pure");
    for _ in 1..=5 {
        let worker = cluster.engine.start().await.unwrap();
        gate.entered().await;
        drop(worker);
        gate.stopped().await;
    }
    let _worker = cluster.engine.start().await.unwrap();
    cluster.parked(run).await;
    named(&cluster, run, "parked_crash_loop", &[&run, &"5 times", &"operator"]).await;
}
