//! Children when something is wrong: hooks that panic, agents that are missing, people who are not there, runs that end early.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use provost_agent::hook::{Hook, SubagentInfo};
use provost_agent::{
    Agent, ApprovalMode, FanOut, Handoff, LimitDecision, OnLimit, RunOutcome, Subagent, Team,
};
use provost_core::usage::limits::{Limits, TOOL_OUTPUT_BYTES_MAX};
use provost_core::{EventKind, Usage};
use provost_model::{
    ModelErrorClass, ScriptedModel, ScriptedTurn, StructuredOutputSupport, call, fail, text,
};
use provost_tool::{RequiresApproval, RunContext, ToolError, tool_fn};
use serde_json::{Value, json};

use super::{child, lead, told};
use crate::support::{Say, echo, endless, events};

/// Panics whenever it is told of a child.
struct Panics;

#[async_trait]
impl Hook for Panics {
    async fn on_subagent_start(&self, _cx: &RunContext, _subagent: &SubagentInfo) {
        panic!("at the start");
    }

    async fn on_subagent_stop(&self, _cx: &RunContext, _subagent: &SubagentInfo) {
        panic!("at the end");
    }
}

pub(super) fn task(tool: &str) -> ScriptedTurn {
    call(tool, json!({"task": "think"}))
}

pub(super) fn background(tool: &str) -> ScriptedTurn {
    call(tool, json!({"task": "think", "background": true}))
}

#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_over_a_background_child_keeps_nobody_waiting() {
    let below = ScriptedModel::new().turn(text("forty-two"));
    let above = ScriptedModel::new()
        .turn(background("child"))
        .turn(call(
            "get_task_result",
            json!({"task_id": "task-1", "wait": true, "timeout": 60_000}),
        ))
        .turn(text("done"));
    let run = lead(&above, &child(&below)).run("go").hook(Panics);
    let warned = |event: &&provost_core::Event| matches!(event.kind, EventKind::Warning { .. });
    assert_eq!(events(run.stream()).await.iter().filter(warned).count(), 2);
    let collected: Value = serde_json::from_str(&told(&above, 2)).unwrap();
    assert_eq!(collected["result"], "forty-two");
}

/// An agent that only calls a tool that never ends.
fn hanging(alive: &Arc<AtomicUsize>) -> Agent {
    let model = ScriptedModel::from_fn(|_, _| call("endless", json!({})));
    Agent::builder("hanging", model).tool(endless(alive)).build().unwrap()
}

#[tokio::test(start_paused = true)]
async fn what_the_next_agent_started_ends_with_a_run_that_fails() {
    let alive = Arc::new(AtomicUsize::new(0));
    let late = |turn: ScriptedTurn| turn.delay(Duration::from_secs(1));
    let failing = || late(fail(ModelErrorClass::InvalidRequest, "no more"));
    let spawn = call("spawn_teammate", json!({"name": "hanging", "task": "think"}));
    let of_team = ScriptedModel::new().turn(spawn).turn(failing());
    let of_child = ScriptedModel::new().turn(background("hanging")).turn(failing());
    let team = Team::new("press").template(&hanging(&alive), "Hangs");
    let next = [
        Agent::builder("next", of_team).team(team).build().unwrap(),
        Agent::builder("next", of_child)
            .subagent(Subagent::new(&hanging(&alive), "Hangs"))
            .build()
            .unwrap(),
    ];
    for next in next {
        let first = ScriptedModel::new().turn(call("transfer_to_next", json!({})));
        let first =
            Agent::builder("first", first).handoff(Handoff::to(&next, "All else")).build().unwrap();
        let mut stream = first.run("go").stream();
        let mut began = false;
        while let Some(event) = stream.next().await {
            began |= event.depth() == 1;
        }
        assert!(began && stream.outcome().await.is_err());
        assert_eq!(alive.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn a_cancelled_run_counts_what_its_children_used() {
    let alive = Arc::new(AtomicUsize::new(0));
    let model =
        ScriptedModel::from_fn(|_, _| call("endless", json!({})).usage(Usage::new(100, 10)));
    let below = Agent::builder("child", model).tool(endless(&alive)).build().unwrap();
    let above = ScriptedModel::new().turn(task("child").usage(Usage::new(10, 1)));
    let mut stream = lead(&above, &below).run("go").stream();
    let handle = stream.handle();
    while let Some(event) = stream.next().await {
        if event.depth() == 1 && matches!(event.innermost().kind, EventKind::ToolStarted { .. }) {
            handle.cancel();
        }
    }
    let RunOutcome::Cancelled(summary) = stream.outcome().await.unwrap() else {
        panic!("it ended")
    };
    assert_eq!((summary.usage, alive.load(Ordering::SeqCst)), (Usage::new(110, 11), 0));
}

#[tokio::test]
async fn an_extended_limit_holds_for_children_too() {
    let below = ScriptedModel::new().turn(text("forty-two"));
    let above = ScriptedModel::new()
        .turn(call("child", json!({"task": ""})).usage(Usage::new(100, 10)))
        .turn(task("child").usage(Usage::new(10, 1)))
        .turn(text("done"));
    let agent = Agent::builder("lead", above.clone())
        .subagent(Subagent::new(&child(&below), "Does one thing"))
        .limits(Limits { total_tokens: Some(100), ..Limits::default() })
        .on_limit(OnLimit::callback(|_| async { Ok(LimitDecision::Extend { message: None }) }))
        .build()
        .unwrap();
    agent.run("go").await.unwrap();
    assert_eq!(told(&above, 2), "forty-two");
}

#[tokio::test]
async fn what_was_used_before_a_run_was_suspended_counts_for_its_children() {
    let below = ScriptedModel::from_fn(|_, _| {
        call("echo", json!({"text": "more"})).usage(Usage::new(15, 0))
    });
    let above = ScriptedModel::new()
        .turn(call("echo", json!({"text": "boom"})).usage(Usage::new(80, 0)))
        .turn(task("child").usage(Usage::new(1, 0)));
    let count = Arc::new(AtomicUsize::new(0));
    let agent = Agent::builder("lead", above)
        .tool(echo(&count).with_spec(|spec| spec.approval(RequiresApproval::Always)))
        .subagent(Subagent::new(&child(&below), "Does one thing"))
        .limits(Limits { total_tokens: Some(100), ..Limits::default() })
        .approvals(ApprovalMode::Suspend)
        .build()
        .unwrap();
    let RunOutcome::Suspended(waits) = agent.run("go").outcome().await.unwrap() else {
        panic!("it did not wait")
    };
    let result = agent.resume(waits.approve_all()).await.unwrap();
    assert!(result.limit.is_some(), "{result:?}");
    assert_eq!(below.call_count(), 2);
}

#[tokio::test]
async fn a_thousand_long_results_are_cut_one_by_one() {
    let below = ScriptedModel::from_fn(|request, _| {
        match request.messages.iter().any(|message| message.text() == "task 500") {
            true => fail(ModelErrorClass::InvalidRequest, "no"),
            false => text("\"é\"".repeat(100)),
        }
    });
    let tasks: Vec<String> = (1..=1000).map(|task| format!("task {task}")).collect();
    let above = ScriptedModel::new().turn(call("each", json!({"tasks": tasks}))).turn(text("done"));
    let agent = Agent::builder("lead", above.clone())
        .fan_out(FanOut::new(&child(&below), "each", "Does all").max_items(1000))
        .build()
        .unwrap();
    agent.run("go").await.unwrap();
    let told = told(&above, 1);
    assert!(told.len() <= TOOL_OUTPUT_BYTES_MAX, "{}", told.len());
    let shown: Value = serde_json::from_str(&told).unwrap();
    assert_eq!((&shown["completed"], &shown["failed"]), (&json!(999), &json!(1)));
    assert_eq!(shown["results"].as_array().unwrap().len(), 1000);
    assert_eq!(shown["results"][499]["status"], "failed");
}

/// A typed answer.
#[derive(Debug, PartialEq, serde::Deserialize, schemars::JsonSchema)]
struct Count {
    n: u32,
}

#[tokio::test]
async fn after_a_hand_off_the_type_is_asked_for_as_the_next_model_can_give_it() {
    let next = ScriptedModel::new()
        .with_info(|info| info.native_output = StructuredOutputSupport::None)
        .turn(text("{\"n\": 5}"));
    let to = Agent::builder("next", next.clone()).build().unwrap();
    let first = ScriptedModel::new()
        .with_info(|info| info.native_output = StructuredOutputSupport::WithTools)
        .turn(call("transfer_to_next", json!({})));
    let first = Agent::builder("first", first)
        .output::<Count>()
        .handoff(Handoff::to(&to, "All else"))
        .build()
        .unwrap();
    assert_eq!(first.run("go").await.unwrap().output, Count { n: 5 });
    let asked = next.request(0);
    assert!(asked.output.is_none(), "{asked:?}");
}

#[tokio::test(start_paused = true)]
async fn background_work_of_a_suspended_run_keeps_its_name_and_says_that_it_was_stopped() {
    let count = Arc::new(AtomicUsize::new(0));
    let result_of = |task: &str| call("get_task_result", json!({"task_id": task, "wait": true}));
    let below = ScriptedModel::new()
        .turn(call("echo", json!({"text": "boom"})).usage(Usage::new(100, 10)))
        .turn(text("too late").hang())
        .turn(text("forty-two"));
    let above = ScriptedModel::new()
        .turn(background("child"))
        .turn(call("careful", json!({"text": "boom"})).delay(Duration::from_secs(1)))
        .turn(background("child"))
        .turn(result_of("task-1"))
        .turn(result_of("task-2"))
        .turn(text("done"));
    let tool =
        tool_fn("careful", "Needs a yes", |_cx, _args: Say| async { Ok::<_, ToolError>("ok") });
    let agent = Agent::builder("lead", above.clone())
        .tool(tool.unwrap().with_spec(|spec| spec.approval(RequiresApproval::Always)))
        .subagent(Subagent::new(
            &Agent::builder("child", below).tool(echo(&count)).build().unwrap(),
            "Does one thing",
        ))
        .approvals(ApprovalMode::Suspend)
        .build()
        .unwrap();
    let RunOutcome::Suspended(waits) = agent.run("go").outcome().await.unwrap() else {
        panic!("it did not wait")
    };
    let result = agent.resume(waits.approve_all()).await.unwrap();
    assert!(told(&above, 3).contains("task-2"), "{}", told(&above, 3));
    assert!(told(&above, 4).contains("its run was suspended"), "{}", told(&above, 4));
    assert!(told(&above, 5).contains("forty-two"), "{}", told(&above, 5));
    assert_eq!(result.usage, Usage::new(100, 10));
    assert!(result.state.is_empty(), "{:?}", result.state);
}

/// Never comes back when it is told of a child.
struct Hangs;

#[async_trait]
impl Hook for Hangs {
    async fn on_subagent_start(&self, _cx: &RunContext, _subagent: &SubagentInfo) {
        std::future::pending().await
    }
}

#[tokio::test(start_paused = true)]
async fn a_background_child_can_be_stopped_while_a_hook_hangs() {
    let below = ScriptedModel::new().turn(text("forty-two"));
    let above = ScriptedModel::new()
        .turn(background("child"))
        .turn(call("stop_task", json!({"task_id": "task-1"})))
        .turn(text("done"));
    let run = lead(&above, &child(&below)).run("go").hook(Hangs).outcome();
    tokio::time::timeout(Duration::from_secs(5), run).await.unwrap().unwrap();
    assert!(told(&above, 2).contains("it was stopped"), "{}", told(&above, 2));
}
