//! Agents that use agents, durably: each is a run of its own, and its parent waits without a worker.

use std::collections::BTreeSet;
use std::sync::Arc;

use provost_agent::{Agent, FanOut, Handoff, Subagent};
use provost_core::Usage;
use provost_core::lifecycle::RunStatus;
use provost_model::{ChatRequest, ScriptedModel, ScriptedTurn, call, text as says};
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::run_step;
use serde_json::{Value, json};

use crate::harness::{Harness, options, text};

/// The text of the newest tool result.
pub(crate) fn told(request: &ChatRequest) -> String {
    request.last_tool_result().map(|result| result.to_text()).unwrap_or_default()
}

/// A stage whose agent has a sub-agent, a fan-out and an agent to hand over to.
async fn crew(
    lead: impl Fn(&ChatRequest) -> ScriptedTurn + Send + Sync + 'static,
    below: impl Fn(&ChatRequest) -> ScriptedTurn + Send + Sync + 'static,
) -> Harness {
    let (lead, below) = (Arc::new(lead), Arc::new(below));
    let agents = move |_: &provost_engine::AgentRevision, _: &provost_engine::Lease| {
        let (lead, below) = (Arc::clone(&lead), Arc::clone(&below));
        let above = ScriptedModel::from_fn(move |request, _| lead(request));
        let below = ScriptedModel::from_fn(move |request, _| below(request));
        let child = Agent::builder("child", below).build().unwrap();
        let agent = Agent::builder("default", above)
            .subagent(Subagent::new(&child, "Does one thing"))
            .fan_out(FanOut::new(&child, "each", "Does many things").max_items(500).concurrency(3))
            .handoff(Handoff::to(&child, "Knows better"))
            .build();
        Ok(agent.unwrap())
    };
    Harness::of(options(), provost_core::Env::system(), agents).await
}

/// Says something and gives the run once it has ended.
async fn answer(harness: &Harness, said: &str) -> RunRow {
    let worker = harness.worker().await;
    let accepted = harness.say("s", said).await;
    let ended = harness.wait(accepted.run).await;
    drop(worker);
    ended
}

pub(crate) fn last_words(request: &ChatRequest) -> String {
    request.messages.last().map(|message| message.text()).unwrap_or_default()
}

#[tokio::test]
async fn s114_a_sub_agent_is_a_run_of_its_own_and_its_answer_is_the_result_of_the_call() {
    let harness = crew(
        |request| match told(request).as_str() {
            "" => call("child", json!({"task": "think"})).usage(Usage::new(10, 1)),
            told => says(format!("it says {told}")).usage(Usage::new(20, 2)),
        },
        |_| says("forty-two").usage(Usage::new(7, 3)),
    )
    .await;
    let ended = answer(&harness, "ask it").await;
    assert_eq!(text(&ended), "it says forty-two");
    let result: Value = serde_json::from_str(ended.result.as_deref().unwrap()).unwrap();
    assert_eq!(result["usage"]["input"], 37, "{result}");
    let parent = ended.id;
    let children = harness.engine.store().read(move |tx| run::children(tx, parent)).await.unwrap();
    assert_eq!(children.len(), 1);
    assert_eq!(children[0].status, RunStatus::Ok);
    assert_eq!(children[0].depth, 1);
}

#[tokio::test]
async fn s136_a_fan_out_of_many_runs_gives_each_task_its_result_once() {
    let tasks: Vec<String> = (0..20).map(|number| format!("task {number}")).collect();
    let asked = tasks.clone();
    let harness = crew(
        move |request| match told(request).as_str() {
            "" => call("each", json!({ "tasks": asked.clone() })),
            told => says(told.to_owned()),
        },
        |request| says(format!("done: {}", last_words(request))),
    )
    .await;
    let ended = answer(&harness, "go").await;
    let told: Value = serde_json::from_str(&text(&ended)).unwrap();
    assert_eq!(told["completed"], 20, "{told}");
    for (place, task) in tasks.iter().enumerate() {
        assert_eq!(told["results"][place]["result"], format!("done: {task}"));
    }
    let parent = ended.id;
    let children = harness.engine.store().read(move |tx| run::children(tx, parent)).await.unwrap();
    assert_eq!(children.len(), 20);
    // What they used is one step, and each of them is counted there once.
    let steps = harness.engine.store().read(move |tx| run_step::after(tx, parent, 0, 100)).await;
    let entries = steps.unwrap().into_iter().filter_map(|step| step.body);
    let entries: Vec<Value> = entries.map(|body| serde_json::from_str(&body).unwrap()).collect();
    let of = |kind: &str| entries.iter().filter(|feed| feed["feed"] == kind).collect::<Vec<_>>();
    assert!(of("child_used").is_empty());
    let [used] = of("children_used")[..] else { panic!("{entries:?}") };
    let used = used["children"].as_array().unwrap().iter().map(|child| child[0].clone());
    let used: BTreeSet<String> = used.map(|id| id.as_str().unwrap().to_owned()).collect();
    assert_eq!(used, children.iter().map(|child| child.id.to_string()).collect());
}

#[tokio::test]
async fn s123_s124_a_background_child_is_collected_and_one_that_nobody_collects_ends_with_its_parent()
 {
    let harness = crew(
        |request| {
            let told = told(request);
            if told.is_empty() {
                call("child", json!({"task": "think", "background": true}))
            } else if told.contains("launched") {
                call("get_task_result", json!({"task_id": "task-1", "wait": true}))
            } else {
                says(told)
            }
        },
        |_| says("forty-two"),
    )
    .await;
    let ended = answer(&harness, "ask it").await;
    let told: Value = serde_json::from_str(&text(&ended)).unwrap();
    assert_eq!((&told["status"], &told["result"]), (&json!("completed"), &json!("forty-two")));
}

#[tokio::test]
async fn s143_a_hand_off_lets_the_target_answer_in_the_same_run() {
    let harness = crew(
        |_| call("transfer_to_child", json!({"reason": "it knows"})),
        |request| says(format!("I saw {} messages", request.messages.len())),
    )
    .await;
    let ended = answer(&harness, "who knows?").await;
    assert_eq!(text(&ended), "I saw 3 messages");
    let result: Value = serde_json::from_str(ended.result.as_deref().unwrap()).unwrap();
    assert_eq!(result["agent"], "child");
}

#[tokio::test]
async fn whoever_speaks_to_a_child_again_speaks_to_the_same_agent() {
    let harness = crew(
        |request| match told(request).as_str() {
            "" => call("child", json!({"task": "think"})),
            told => says(told.to_owned()),
        },
        |request| says(format!("child: {}", last_words(request))),
    )
    .await;
    let parent = answer(&harness, "go").await.id;
    let children = harness.engine.store().read(move |tx| run::children(tx, parent)).await.unwrap();
    let _worker = harness.worker().await;
    let more = provost_engine::InputRequest::text("more");
    let again =
        harness.engine.inputs().send(&harness.namespace, children[0].task_id, more).await.unwrap();
    assert_eq!(text(&harness.wait(again.run).await), "child: more");
    let edit =
        provost_engine::ForkEdit::ReplaceLast(vec![provost_core::ContentPart::text("other")]);
    let edits = provost_engine::ForkOptions::from(edit);
    let fork =
        harness.engine.runs().fork(&harness.namespace, children[0].id, None, edits).await.unwrap();
    assert_eq!(text(&harness.wait(fork.run).await), "child: other");
}
