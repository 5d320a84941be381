//! One agent on many tasks at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use provost_agent::{Agent, FanOut, RunOutcome};
use provost_core::Limits;
use provost_model::{ModelErrorClass, ScriptedModel, call, fail, text};
use provost_tool::{ToolError, tool_fn};
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use super::{child, told};
use crate::support::{Say, events, final_text};

fn splitter(model: &ScriptedModel, fan_out: FanOut) -> Agent {
    Agent::builder("lead", model.clone()).fan_out(fan_out).build().unwrap()
}

fn each(agent: &Agent) -> FanOut {
    FanOut::new(agent, "each", "Does many things")
}

fn asking(tasks: &[&str]) -> ScriptedModel {
    ScriptedModel::new().turn(call("each", json!({ "tasks": tasks }))).turn(text("done"))
}

#[tokio::test]
async fn s136_three_tasks_are_three_calls_of_the_worker() {
    let below = ScriptedModel::new().turn(text("a")).turn(text("b")).turn(text("c"));
    let above = asking(&["one", "two", "three"]);
    let result = splitter(&above, each(&child(&below))).run("go").await.unwrap();
    assert_eq!((result.output.as_str(), below.call_count()), ("done", 3));
}

#[tokio::test]
async fn s137_an_empty_list_calls_nobody() {
    let (below, above) = (ScriptedModel::new(), asking(&[]));
    let result = splitter(&above, each(&child(&below))).run("go").await.unwrap();
    assert_eq!((result.output.as_str(), below.call_count()), ("done", 0));
    assert!(above.request(1).last_tool_result().unwrap().is_error);
}

#[tokio::test]
async fn s138_arguments_that_are_no_json_let_the_run_go_on() {
    let above = ScriptedModel::new().turn(text("").raw_call("c", "each", "[")).turn(text("done"));
    let result = splitter(&above, each(&child(&ScriptedModel::new()))).run("go").await.unwrap();
    assert_eq!(result.output, "done");
}

#[tokio::test]
async fn s139_one_task_that_fails_is_that_tasks_failure() {
    let below = ScriptedModel::from_fn(|request, _| {
        match request.messages.last().unwrap().text().as_str() {
            "two" => fail(ModelErrorClass::InvalidRequest, "not this one"),
            other => text(format!("did {other}")),
        }
    });
    let above = asking(&["one", "two", "three"]);
    let result = splitter(&above, each(&child(&below))).run("go").await.unwrap();
    assert_eq!(result.output, "done");
    let told: Value = serde_json::from_str(&told(&above, 1)).unwrap();
    assert_eq!((&told["completed"], &told["failed"]), (&json!(2), &json!(1)));
    assert_eq!(told["results"][1]["status"], "failed");
    assert!(told["results"][1]["error"].as_str().unwrap().contains("not this one"));
    assert_eq!(told["results"][2]["result"], "did three");
}

#[tokio::test]
async fn a_task_that_stopped_at_a_limit_is_no_finished_one() {
    let below = ScriptedModel::from_fn(|request, _| {
        match request.messages.first().unwrap().text().as_str() {
            "long" => call("missing", json!({})),
            other => text(format!("did {other}")),
        }
    });
    let worker = Agent::builder("worker", below).limits(Limits::default().turns(1)).build();
    let above = asking(&["short", "long"]);
    splitter(&above, each(&worker.unwrap())).run("go").await.unwrap();
    let told: Value = serde_json::from_str(&told(&above, 1)).unwrap();
    assert_eq!((&told["completed"], &told["partial"]), (&json!(1), &json!(1)));
    assert_eq!(told["failed"], 0);
    assert_eq!(told["results"][1]["status"], "partial");
    assert!(told["results"][1]["result"].as_str().unwrap().contains("incomplete"));
}

#[tokio::test(start_paused = true)]
async fn a_fan_out_that_is_cancelled_ends_those_that_wait_for_their_turn_too() {
    let below = ScriptedModel::from_fn(|_, _| text("late").delay(Duration::from_secs(60)));
    let above = asking(&["1", "2", "3", "4", "5"]);
    let agent = splitter(&above, each(&child(&below)).concurrency(2));
    let stop = CancellationToken::new();
    let run = agent.run("go").cancel_token(stop.clone()).outcome();
    let cancel = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        stop.cancel();
    };
    let (outcome, ()) = tokio::join!(run, cancel);
    assert!(matches!(outcome, Ok(RunOutcome::Cancelled(_))), "{outcome:?}");
    assert!(below.call_count() <= 2, "{}", below.call_count());
}

#[tokio::test]
async fn s140_never_more_work_at_once_than_is_allowed() {
    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (at_work, peak) = (Arc::clone(&now), Arc::clone(&most));
    let busy = tool_fn("busy", "Works", move |_cx, _args: Say| {
        let (at_work, peak) = (Arc::clone(&at_work), Arc::clone(&peak));
        async move {
            peak.fetch_max(at_work.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            for _ in 0..50 {
                tokio::task::yield_now().await;
            }
            at_work.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, ToolError>("worked")
        }
    });
    let below = ScriptedModel::from_fn(|request, _| match request.last_tool_result() {
        None => call("busy", json!({})),
        Some(_) => text("ok"),
    });
    let worker = Agent::builder("worker", below).tool(busy.unwrap()).build().unwrap();
    let above = asking(&["1", "2", "3", "4", "5"]);
    splitter(&above, each(&worker).concurrency(2)).run("go").await.unwrap();
    assert_eq!(most.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn s141_the_result_has_every_task_in_order() {
    let below = ScriptedModel::from_fn(|request, _| {
        text(format!("did {}", request.messages.last().unwrap().text()))
    });
    let above = asking(&["one", "two", "three"]);
    splitter(&above, each(&child(&below))).run("go").await.unwrap();
    let told: Value = serde_json::from_str(&told(&above, 1)).unwrap();
    for (place, task) in ["one", "two", "three"].iter().enumerate() {
        assert_eq!(told["results"][place]["task"], *task);
        assert_eq!(told["results"][place]["result"], format!("did {task}"));
    }
}

#[tokio::test]
async fn s142_the_stream_ends_with_the_parents_answer() {
    let below = ScriptedModel::from_fn(|_, _| text("ok"));
    let above = asking(&["one", "two"]);
    let events = events(splitter(&above, each(&child(&below))).run("go").stream()).await;
    assert_eq!(final_text(&events), "done");
}

#[tokio::test]
async fn more_tasks_than_allowed_are_refused_and_nobody_is_called() {
    let (below, above) = (ScriptedModel::new(), asking(&["1", "2", "3"]));
    splitter(&above, each(&child(&below)).max_items(2)).run("go").await.unwrap();
    assert_eq!(below.call_count(), 0);
    assert!(told(&above, 1).contains("at most 2 are allowed"), "{}", told(&above, 1));
}
