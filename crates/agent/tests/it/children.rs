//! Agents that use other agents.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use provost_agent::{Agent, AgentSlot, Delegate, FanOut, HandOffTo};
use provost_core::{Event, EventKind, Usage};
use provost_model::{ScriptedModel, call, text};
use serde_json::json;

use crate::support::{echo, events, final_text};

fn child(model: &ScriptedModel) -> Agent {
    let count = Arc::new(AtomicUsize::new(0));
    Agent::builder("child", model.clone()).tool(echo(&count)).build().unwrap()
}

fn lead(model: &ScriptedModel, child: &Agent) -> Agent {
    let terms = Delegate::new("Does one thing");
    Agent::builder("lead", model.clone()).subagent(child, terms).build().unwrap()
}

/// What the model of a parent was told by a tool, by turn.
fn told(model: &ScriptedModel, request: usize) -> String {
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
async fn s123_s124_a_background_child_is_launched_and_its_result_is_collected() {
    let below = ScriptedModel::new().turn(text("forty-two"));
    let above = ScriptedModel::new()
        .turn(call("child", json!({"task": "think", "background": true})))
        .turn(call("get_task_result", json!({"task_id": "task-1", "wait": true})))
        .turn(text("done"));
    lead(&above, &child(&below)).run("ask it").await.unwrap();
    let launched: serde_json::Value = serde_json::from_str(&told(&above, 1)).unwrap();
    assert_eq!(launched, json!({"task_id": "task-1", "agent_name": "child", "status": "launched"}));
    let collected: serde_json::Value = serde_json::from_str(&told(&above, 2)).unwrap();
    assert_eq!(collected["status"], "completed");
    assert_eq!(collected["result"], "forty-two");
}

#[tokio::test]
async fn s136_s141_a_fan_out_gives_every_task_its_result() {
    let below = ScriptedModel::new().turn(text("a")).turn(text("b")).turn(text("c"));
    let above = ScriptedModel::new()
        .turn(call("each", json!({"tasks": ["one", "two", "three"]})))
        .turn(text("done"));
    let lead = Agent::builder("lead", above.clone())
        .fan_out(&child(&below), FanOut::new("each", "Does many things"))
        .build()
        .unwrap();
    let result = lead.run("go").await.unwrap();
    assert_eq!(result.output, "done");
    assert_eq!(below.requests().len(), 3);
    let told: serde_json::Value = serde_json::from_str(&told(&above, 1)).unwrap();
    assert_eq!(told["completed"], 3);
    assert_eq!(told["results"][1]["task"], "two");
}

#[tokio::test]
async fn s143_s149_s150_a_hand_off_lets_the_target_answer() {
    let billing_model = ScriptedModel::new().turn(text("you owe nothing"));
    let billing =
        Agent::builder("billing", billing_model.clone()).instructions("Bill.").build().unwrap();
    let front_model =
        ScriptedModel::new().turn(call("transfer_to_billing", json!({"reason": "money"})));
    let front = Agent::builder("front", front_model)
        .instructions("Front.")
        .hand_off(&billing, HandOffTo::new("Money questions"))
        .build()
        .unwrap();
    let events = events(front.run("what do I owe?").stream()).await;
    assert_eq!(final_text(&events), "you owe nothing");
    let EventKind::Finished { summary } = &events.last().unwrap().kind else { panic!() };
    assert_eq!(summary.agent, "billing");
    let handed = events.iter().find_map(|event| match &event.kind {
        EventKind::HandedOff(told) => Some(told),
        _ => None,
    });
    let handed = handed.expect("a hand-off is told");
    assert_eq!((handed.to.as_str(), handed.reason.as_deref()), ("billing", Some("money")));
    let seen = billing_model.request(0);
    assert_eq!(seen.system.as_deref(), Some("Bill."));
    assert_eq!(seen.messages[0].text(), "what do I owe?");
    assert!(seen.messages[1].tool_calls().any(|call| call.name == "transfer_to_billing"));
    assert_eq!(&*events.last().unwrap().agent, "billing");
}

#[tokio::test]
async fn s151_agents_that_hand_over_to_each_other_come_to_an_end() {
    let slot = AgentSlot::new("b");
    let to = |agent: &str| call(&format!("transfer_to_{agent}"), json!({}));
    let a_model = ScriptedModel::new().turn(to("b")).turn(to("b")).turn(text("a ends it"));
    let b_model = ScriptedModel::new().turn(to("a")).turn(to("a"));
    let a = Agent::builder("a", a_model)
        .hand_off(&slot, HandOffTo::new("b"))
        .max_hand_offs(4)
        .build()
        .unwrap();
    let b = Agent::builder("b", b_model).hand_off(&a, HandOffTo::new("a")).build().unwrap();
    slot.fill(&b).unwrap();
    let result = a.run("go").await.unwrap();
    assert_eq!((result.output.as_str(), result.agent.as_str()), ("a ends it", "a"));
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
    let of_child: Vec<&Event> = events.iter().filter(|event| event.level() == 1).collect();
    assert!(of_child.iter().all(|event| &*event.agent == "lead/child"));
    let last = of_child.last().unwrap().innermost();
    assert!(matches!(&last.kind, EventKind::Finished { summary } if summary.text == "forty-two"));
    let EventKind::Child { call_id, .. } = &of_child[0].kind else { panic!() };
    let started = |event: &&Event| matches!(&event.kind, EventKind::ToolStarted { call_id: id, .. } if id == call_id);
    assert!(events.iter().any(|event| started(&event)));
}
