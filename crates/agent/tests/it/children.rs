//! Agents that use other agents.

mod background;
mod fan_outs;
mod hand_offs;
mod inherited;
mod questions;
mod unhappy;

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use provost_agent::{Agent, Subagent};
use provost_core::{Event, EventKind, Usage};
use provost_model::{ModelErrorClass, ScriptedModel, call, fail, text};
use serde_json::json;

use crate::support::{echo, events, final_text};

pub(crate) fn child(model: &ScriptedModel) -> Agent {
    let count = Arc::new(AtomicUsize::new(0));
    Agent::builder("child", model.clone()).tool(echo(&count)).build().unwrap()
}

pub(crate) fn lead(model: &ScriptedModel, child: &Agent) -> Agent {
    let subagent = Subagent::new(child, "Does one thing");
    Agent::builder("lead", model.clone()).subagent(subagent).build().unwrap()
}

/// What the model of a parent was told by a tool, by turn.
pub(crate) fn told(model: &ScriptedModel, request: usize) -> String {
    model.request(request).last_tool_result().unwrap().to_text()
}

#[tokio::test]
async fn s114_a_sub_agent_runs_once_and_the_parent_answers() {
    let below = ScriptedModel::new().turn(text("forty-two"));
    let above = ScriptedModel::new()
        .turn(call("child", json!({"task": "think"})))
        .turn(text("it says forty-two"));
    let result = lead(&above, &child(&below)).run("ask it").await.unwrap();
    assert_eq!(result.output, "it says forty-two");
    assert_eq!(below.requests().len(), 1);
    assert_eq!(told(&above, 1), "forty-two");
}

#[tokio::test]
async fn s120_max_turns_limits_the_child_to_one_call_more() {
    let below = ScriptedModel::new()
        .turn(call("echo", json!({"text": "1"})))
        .turn(call("echo", json!({"text": "2"})))
        .turn(call("echo", json!({"text": "3"})))
        .turn(text("never"));
    let above = ScriptedModel::new()
        .turn(call("child", json!({"task": "think", "max_turns": 2})))
        .turn(text("done"));
    lead(&above, &child(&below)).run("ask it").await.unwrap();
    assert_eq!(below.requests().len(), 3);
    assert!(told(&above, 1).contains("stopped at its limit of 2 turns"), "{}", told(&above, 1));
}

#[tokio::test]
async fn s115_an_empty_task_starts_nobody_and_the_run_goes_on() {
    let below = ScriptedModel::new();
    let above =
        ScriptedModel::new().turn(call("child", json!({"task": " "}))).turn(text("never mind"));
    let result = lead(&above, &child(&below)).run("ask it").await.unwrap();
    assert_eq!(result.output, "never mind");
    assert_eq!(below.call_count(), 0);
    assert!(told(&above, 1).contains("`task` is empty"), "{}", told(&above, 1));
}

#[tokio::test]
async fn s116_arguments_that_are_no_json_start_nobody_and_the_run_goes_on() {
    let below = ScriptedModel::new();
    let above = ScriptedModel::new()
        .turn(text("").raw_call("c1", "child", "{not json"))
        .turn(text("never mind"));
    let result = lead(&above, &child(&below)).run("ask it").await.unwrap();
    assert_eq!(result.output, "never mind");
    assert_eq!(below.call_count(), 0);
}

#[tokio::test]
async fn s117_a_child_whose_model_fails_does_not_fail_its_parent() {
    let below = ScriptedModel::new().turn(fail(ModelErrorClass::InvalidRequest, "no such model"));
    let above =
        ScriptedModel::new().turn(call("child", json!({"task": "think"}))).turn(text("it failed"));
    let result = lead(&above, &child(&below)).run("ask it").await.unwrap();
    assert_eq!(result.output, "it failed");
    let told = told(&above, 1);
    assert!(told.contains("child failed") && told.contains("no such model"), "{told}");
    assert!(above.request(1).last_tool_result().unwrap().is_error);
}

#[tokio::test]
async fn s118_two_sub_agents_work_in_turns_each_once() {
    let (one, two) = (ScriptedModel::new().turn(text("1")), ScriptedModel::new().turn(text("2")));
    let above = ScriptedModel::new()
        .turn(call("first", json!({"task": "a"})))
        .turn(call("second", json!({"task": "b"})))
        .turn(text("both"));
    let first = Agent::builder("first", one.clone()).build().unwrap();
    let second = Agent::builder("second", two.clone()).build().unwrap();
    let lead = Agent::builder("lead", above.clone())
        .subagent(Subagent::new(&first, "First"))
        .subagent(Subagent::new(&second, "Second"))
        .build()
        .unwrap();
    assert_eq!(lead.run("go").await.unwrap().output, "both");
    assert_eq!((one.call_count(), two.call_count()), (1, 1));
    assert_eq!((told(&above, 1), told(&above, 2)), ("1".to_owned(), "2".to_owned()));
}

#[tokio::test]
async fn s119_the_parents_stream_ends_with_its_own_answer() {
    let below = ScriptedModel::new().turn(text("forty-two"));
    let above =
        ScriptedModel::new().turn(call("child", json!({"task": "think"}))).turn(text("done"));
    let events = events(lead(&above, &child(&below)).run("ask it").stream()).await;
    assert_eq!(final_text(&events), "done");
}

#[tokio::test]
async fn s121_without_max_turns_a_child_runs_to_its_own_end() {
    let below = ScriptedModel::new()
        .turn(call("echo", json!({"text": "1"})))
        .turn(call("echo", json!({"text": "2"})))
        .turn(text("the end"));
    let above =
        ScriptedModel::new().turn(call("child", json!({"task": "think"}))).turn(text("done"));
    lead(&above, &child(&below)).run("ask it").await.unwrap();
    assert_eq!((below.call_count(), told(&above, 1)), (3, "the end".to_owned()));
}

#[tokio::test]
async fn s132_without_the_flag_a_call_waits_for_its_child() {
    let below = ScriptedModel::new().turn(text("forty-two"));
    let above =
        ScriptedModel::new().turn(call("child", json!({"task": "think"}))).turn(text("done"));
    lead(&above, &child(&below)).run("ask it").await.unwrap();
    assert_eq!(told(&above, 1), "forty-two");
}

#[tokio::test]
async fn s135_the_tools_for_tasks_are_offered_exactly_with_sub_agents() {
    let names = |model: &ScriptedModel| -> Vec<String> {
        model.request(0).tools.iter().map(|tool| tool.name.clone()).collect()
    };
    let alone = ScriptedModel::new().turn(text("hi"));
    Agent::builder("alone", alone.clone()).build().unwrap().run("hi").await.unwrap();
    assert!(names(&alone).is_empty());
    let above = ScriptedModel::new().turn(text("hi"));
    lead(&above, &child(&ScriptedModel::new())).run("hi").await.unwrap();
    assert_eq!(names(&above), ["child", "get_task_result", "stop_task", "list_tasks"]);
}

#[tokio::test]
async fn without_background_work_there_is_nothing_to_look_after() {
    let model = ScriptedModel::new().turn(text("hi"));
    let (one, two) = (child(&ScriptedModel::new()), child(&ScriptedModel::new()));
    let waits =
        |agent: &Agent, tool: &str| Subagent::new(agent, "Thinks").named(tool).background(false);
    let builder = Agent::builder("lead", model.clone());
    builder.subagent(waits(&one, "one")).build().unwrap().run("hi").await.unwrap();
    let builder = Agent::builder("lead", model.clone().turn(text("hi")));
    let both = builder
        .subagent(waits(&one, "one"))
        .subagent(Subagent::new(&two, "Thinks").named("two"))
        .build();
    both.unwrap().run("hi").await.unwrap();
    let names = |request: usize| -> Vec<String> {
        model.request(request).tools.iter().map(|tool| tool.name.clone()).collect()
    };
    assert_eq!(names(0), ["one"]);
    assert_eq!(names(1), ["one", "two", "get_task_result", "stop_task", "list_tasks"]);
}

#[tokio::test]
async fn s234_the_use_of_children_is_in_the_parents_totals_and_told_by_agent() {
    let below = ScriptedModel::new().turn(text("forty-two").usage(Usage::new(7, 3)));
    let above = ScriptedModel::new()
        .turn(call("child", json!({"task": "think"})).usage(Usage::new(10, 1)))
        .turn(text("done").usage(Usage::new(20, 2)));
    let result = lead(&above, &child(&below)).run("ask it").await.unwrap();
    assert_eq!((result.usage.input, result.usage.output), (37, 6));
    let agents: Vec<_> =
        result.agents.iter().map(|used| (used.agent.as_str(), used.usage.input)).collect();
    assert_eq!(agents, [("lead", 30), ("lead/child", 7)]);
}

#[tokio::test]
async fn the_events_of_a_child_are_in_the_parents_stream() {
    let below = ScriptedModel::new().turn(text("forty-two"));
    let above =
        ScriptedModel::new().turn(call("child", json!({"task": "think"}))).turn(text("done"));
    let events = events(lead(&above, &child(&below)).run("ask it").stream()).await;
    let of_child: Vec<&Event> = events.iter().filter(|event| event.depth() == 1).collect();
    assert!(of_child.iter().all(|event| &*event.agent == "lead/child"));
    let last = of_child.last().unwrap().innermost();
    assert!(matches!(&last.kind, EventKind::Finished { summary } if summary.text == "forty-two"));
    let EventKind::Child { call_id, .. } = &of_child[0].kind else { panic!() };
    let started = |event: &&Event| matches!(&event.kind, EventKind::ToolStarted { call_id: id, .. } if id == call_id);
    assert!(events.iter().any(|event| started(&event)));
}
