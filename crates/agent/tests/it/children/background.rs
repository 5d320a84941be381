//! Children that work in the background.

use std::time::Duration;

use provost_core::EventKind;
use provost_model::{ScriptedModel, call, calls, text};
use serde_json::{Value, json};

use super::{child, lead, told};
use crate::support::{events, final_text};

fn background() -> provost_model::ScriptedTurn {
    call("child", json!({"task": "think", "background": true}))
}

fn result_of(task: &str, wait: bool) -> provost_model::ScriptedTurn {
    call("get_task_result", json!({"task_id": task, "wait": wait}))
}

fn read(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[tokio::test]
async fn s124_with_wait_the_childs_text_is_collected() {
    let below = ScriptedModel::new().turn(text("forty-two"));
    let above = ScriptedModel::new()
        .turn(call("child", json!({"task": "think", "background": true})))
        .turn(call("get_task_result", json!({"task_id": "task-1", "wait": true})))
        .turn(text("done"));
    lead(&above, &child(&below)).run("ask it").await.unwrap();
    let launched: Value = serde_json::from_str(&told(&above, 1)).unwrap();
    assert_eq!(launched, json!({"task_id": "task-1", "agent_name": "child", "status": "launched"}));
    let collected: Value = serde_json::from_str(&told(&above, 2)).unwrap();
    assert_eq!(collected["status"], "completed");
    assert_eq!(collected["result"], "forty-two");
}

#[tokio::test]
async fn s122_max_turns_limits_a_background_child() {
    let below = ScriptedModel::new()
        .turn(call("echo", json!({"text": "1"})))
        .turn(call("echo", json!({"text": "2"})))
        .turn(text("never"));
    let above = ScriptedModel::new()
        .turn(call("child", json!({"task": "think", "background": true, "max_turns": 1})))
        .turn(result_of("task-1", true))
        .turn(text("done"));
    lead(&above, &child(&below)).run("go").await.unwrap();
    assert_eq!(below.call_count(), 2);
}

#[tokio::test]
async fn s123_a_launch_gives_a_task_id_at_once() {
    let below = ScriptedModel::new().turn(text("late").hang());
    let above = ScriptedModel::new().turn(background()).turn(text("done"));
    lead(&above, &child(&below)).run("go").await.unwrap();
    let launched = read(&told(&above, 1));
    assert_eq!(launched, json!({"task_id": "task-1", "agent_name": "child", "status": "launched"}));
}

#[tokio::test]
async fn s125_without_wait_the_status_comes_at_once() {
    let below = ScriptedModel::new().turn(text("late").hang());
    let above =
        ScriptedModel::new().turn(background()).turn(result_of("task-1", false)).turn(text("done"));
    lead(&above, &child(&below)).run("go").await.unwrap();
    assert_eq!(read(&told(&above, 2))["status"], "running");
}

#[tokio::test(start_paused = true)]
async fn s126_a_wait_that_takes_too_long_gives_the_status_as_it_is() {
    let below = ScriptedModel::new().turn(text("late").delay(Duration::from_secs(3600)));
    let above = ScriptedModel::new()
        .turn(background())
        .turn(call("get_task_result", json!({"task_id": "task-1", "wait": true, "timeout": 100})))
        .turn(text("done"));
    let began = tokio::time::Instant::now();
    lead(&above, &child(&below)).run("go").await.unwrap();
    assert_eq!(read(&told(&above, 2))["status"], "running");
    assert!(began.elapsed() < Duration::from_secs(60), "{:?}", began.elapsed());
}

#[tokio::test]
async fn s127_an_unknown_task_is_not_found_and_the_run_goes_on() {
    let above = ScriptedModel::new().turn(result_of("task-9", true)).turn(text("done"));
    let result = lead(&above, &child(&ScriptedModel::new())).run("go").await.unwrap();
    assert_eq!(result.output, "done");
    assert!(told(&above, 1).contains("`task-9` was not found"), "{}", told(&above, 1));
}

#[tokio::test]
async fn s128_a_stopped_task_is_cancelled() {
    let below = ScriptedModel::new().turn(text("late").hang());
    let above = ScriptedModel::new()
        .turn(background())
        .turn(call("stop_task", json!({"task_id": "task-1"})))
        .turn(result_of("task-1", true))
        .turn(text("done"));
    lead(&above, &child(&below)).run("go").await.unwrap();
    assert_eq!(read(&told(&above, 3))["status"], "cancelled");
}

#[tokio::test]
async fn s129_stopping_says_what_it_did() {
    let below = ScriptedModel::new().turn(text("late").hang());
    let above = ScriptedModel::new()
        .turn(background())
        .turn(call("stop_task", json!({"task_id": "task-1"})))
        .turn(text("done"));
    lead(&above, &child(&below)).run("go").await.unwrap();
    let stopped = read(&told(&above, 2));
    assert_eq!((&stopped["task_id"], &stopped["status"]), (&json!("task-1"), &json!("cancelled")));
    assert!(stopped["message"].is_string());
}

#[tokio::test]
async fn s130_the_list_names_each_task_once() {
    let below = ScriptedModel::new().turn(text("late").hang());
    let above = ScriptedModel::new()
        .turn(background())
        .turn(call("list_tasks", json!({})))
        .turn(text("done"));
    lead(&above, &child(&below)).run("go").await.unwrap();
    let list = read(&told(&above, 2));
    assert_eq!(list, json!([{"task_id": "task-1", "agent_name": "child", "status": "running"}]));
}

#[tokio::test]
async fn s131_two_children_of_one_turn_are_task_1_and_task_2() {
    let below = ScriptedModel::new().turn(text("one")).turn(text("two"));
    let launch = |task: &str| ("child", json!({"task": task, "background": true}));
    let collect = |task: &str| ("get_task_result", json!({"task_id": task, "wait": true}));
    let above = ScriptedModel::new()
        .turn(calls([launch("a"), launch("b")]))
        .turn(calls([collect("task-1"), collect("task-2")]))
        .turn(text("done"));
    lead(&above, &child(&below)).run("go").await.unwrap();
    let last = above.request(2);
    let results: Vec<Value> =
        last.messages.last().unwrap().tool_results().map(|one| read(&one.to_text())).collect();
    let ids: Vec<&Value> = results.iter().map(|result| &result["task_id"]).collect();
    assert_eq!(ids, ["task-1", "task-2"]);
    let mut texts: Vec<&str> =
        results.iter().map(|result| result["result"].as_str().unwrap()).collect();
    texts.sort_unstable();
    assert_eq!(texts, ["one", "two"]);
}

#[tokio::test]
async fn s133_a_child_that_nobody_collects_is_stopped_with_its_parent() {
    let below = ScriptedModel::new().turn(text("late").hang());
    let above = ScriptedModel::new().turn(background()).turn(text("done"));
    let events = events(lead(&above, &child(&below)).run("go").stream()).await;
    assert_eq!(final_text(&events), "done");
    let last = events.iter().rfind(|event| event.depth() == 1).unwrap().innermost();
    assert!(matches!(last.kind, EventKind::Cancelled), "{:?}", last.kind);
}

#[tokio::test]
async fn s134_a_background_childs_text_is_in_the_stream_as_a_result() {
    let below = ScriptedModel::new().turn(text("forty-two"));
    let above =
        ScriptedModel::new().turn(background()).turn(result_of("task-1", true)).turn(text("done"));
    let events = events(lead(&above, &child(&below)).run("go").stream()).await;
    let told = events.iter().any(|event| match &event.kind {
        EventKind::ToolFinished { result, .. } => result.to_text().contains("forty-two"),
        _ => false,
    });
    assert!(told);
}
