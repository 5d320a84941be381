//! Agents that use agents, where something comes between: a person, a clock, an end before the beginning.

use std::sync::Arc;
use std::time::Duration;

use provost_agent::team::Team;
use provost_agent::{Agent, FanOut, Subagent};
use provost_bus::Topic;
use provost_core::lifecycle::{RunPhase, RunStatus, WaitReason};
use provost_core::scheduling::{InputMode, TimerKind};
use provost_core::{ApprovalDecision, Env, RunId};
use provost_engine::{EngineOptions, InputRequest, Lease};
use provost_model::{ChatRequest, ScriptedModel, ScriptedTurn, call, calls, text as says};
use provost_store::query;
use provost_store::table::scheduling::timer;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::task;
use provost_tool::{RequiresApproval, ToolError, tool_fn};
use serde_json::{Value, json};
use tokio::sync::Semaphore;

use crate::children::{hold_tool, replay_all, timeouts, until_phase};
use crate::explain::named_by;
use crate::harness::{Harness, options, text};
use crate::subagents::{last_words, told};

/// What there is around the agents of a stage.
struct Around {
    options: EngineOptions,
    env: Env,
    /// Where the tool `hold` waits.
    gate: Arc<Semaphore>,
}

impl Default for Around {
    fn default() -> Self {
        Self { options: options(), env: Env::system(), gate: Arc::new(Semaphore::new(0)) }
    }
}

/// A stage whose agent has a sub-agent, a fan-out of two at once and a team; everybody has a tool that waits at the gate and
/// one that needs a yes.
async fn crew(
    around: &Around,
    lead: impl Fn(&ChatRequest) -> ScriptedTurn + Send + Sync + 'static,
    below: impl Fn(&ChatRequest) -> ScriptedTurn + Send + Sync + 'static,
) -> Harness {
    let (lead, below, gate) = (Arc::new(lead), Arc::new(below), Arc::clone(&around.gate));
    let agents = move |_: &provost_engine::AgentRevision, _: &Lease| {
        let (lead, below) = (Arc::clone(&lead), Arc::clone(&below));
        let above = ScriptedModel::from_fn(move |request, _| lead(request));
        let below = ScriptedModel::from_fn(move |request, _| below(request));
        let careful = || {
            let tool = tool_fn("careful", "Needs a yes", |_cx, (): ()| async {
                Ok::<_, ToolError>("done".to_owned())
            });
            tool.unwrap().with_spec(|spec| spec.approval(RequiresApproval::Always))
        };
        let child = Agent::builder("child", below).tools([hold_tool(&gate)]).tool(careful());
        let child = child.build().unwrap();
        let agent = Agent::builder("default", above)
            .subagent(Subagent::new(&child, "Does one thing"))
            .fan_out(FanOut::new(&child, "each", "Does many things").concurrency(2))
            .team(Team::new("crew").template(&child, "Does a part"))
            .tool(careful());
        Ok(agent.build().unwrap())
    };
    Harness::of(around.options.clone(), around.env.clone(), agents).await
}

/// Makes one call and then says its result.
fn calling(tool: &'static str, args: Value) -> impl Fn(&ChatRequest) -> ScriptedTurn {
    move |request| match told(request).as_str() {
        "" => call(tool, args.clone()),
        told => says(told.to_owned()),
    }
}

async fn children_of(harness: &Harness, parent: RunId) -> Vec<RunRow> {
    let read = harness.engine.store().read(move |tx| run::live_children(tx, parent));
    read.await.unwrap()
}

/// Waits until so many children of a run are in a phase.
async fn until_children(
    harness: &Harness,
    parent: RunId,
    phase: &str,
    number: usize,
) -> Vec<RunRow> {
    let looking = async {
        let mut hints = harness.engine.store().bus().subscribe(Topic::Wakeups);
        loop {
            let children = children_of(harness, parent).await;
            let found: Vec<_> =
                children.into_iter().filter(|row| row.phase.as_str() == phase).collect();
            if found.len() == number {
                return found;
            }
            drop(tokio::time::timeout(Duration::from_millis(50), hints.recv()).await);
        }
    };
    tokio::time::timeout(Duration::from_secs(20), looking).await.expect("they come to the phase")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_parent_that_is_interrupted_goes_on_with_what_was_said_and_its_children_end() {
    let lead = |request: &ChatRequest| match last_words(request).as_str() {
        "go" => calls([("child", json!({"task": "a"})), ("child", json!({"task": "b"}))]),
        other => says(format!("re: {other}")),
    };
    // They wait for a yes that nobody gives.
    let harness = crew(&Around::default(), lead, |_| call("careful", json!({}))).await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "go").await;
    let children = until_children(&harness, accepted.run, "parked", 2).await;
    until_phase(&harness, accepted.run, "parked").await;
    let stop = InputRequest::text("stop").mode(InputMode::Interrupt);
    harness.engine.inputs().send(&harness.namespace, accepted.task, stop).await.unwrap();
    let ended = harness.wait(accepted.run).await;
    assert_eq!((ended.status.as_str(), text(&ended).as_str()), ("ok", "re: stop"), "{ended:?}");
    for child in children {
        assert_eq!(harness.wait(child.id).await.status, RunStatus::Cancelled);
    }
    replay_all(&harness).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_is_cancelled_before_its_turn_leaves_no_place_to_another() {
    let around = Around::default();
    let lead = calling("each", json!({"tasks": ["a", "b", "c", "d", "e"]}));
    let harness = crew(&around, lead, |request| match told(request).as_str() {
        "" => call("hold", json!({})),
        _ => says("done"),
    });
    let harness = harness.await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "go").await;
    until_children(&harness, accepted.run, "leased", 2).await;
    let waiting = until_children(&harness, accepted.run, "queued", 3).await;
    let third = waiting[0].id;
    let names: [&dyn std::fmt::Display; 3] = [&third, &accepted.run, &"same call"];
    named_by(&harness.engine, third, "waiting_call_full", &names).await;
    harness.engine.runs().cancel(&harness.namespace, third).await.unwrap();
    let waiting = children_of(&harness, accepted.run).await;
    let held = waiting.iter().filter(|row| row.not_before > row.created).count();
    assert_eq!((waiting.len(), held), (4, 2), "two are at work as before");
    around.gate.add_permits(1);
    let ended = harness.wait(accepted.run).await;
    let told: Value = serde_json::from_str(&text(&ended)).unwrap();
    assert_eq!((&told["completed"], &told["failed"]), (&json!(4), &json!(1)), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_time_to_wait_for_a_worker_begins_with_a_childs_turn() {
    let env = Env::simulated(3);
    let around = Around { env: env.clone(), ..Around::default() };
    let lead = calling("each", json!({"tasks": ["a", "b", "c"]}));
    let harness = crew(&around, lead, |request| match told(request).as_str() {
        "" => call("hold", json!({})),
        _ => says("done"),
    });
    let harness = harness.await;
    let config = json!({"policy": {"interactive": true}, "clocks": {"queue_ms": 60_000}});
    let config = serde_json::from_value(config).unwrap();
    harness.engine.put_agent(&harness.namespace, "default", None, config).await.unwrap();
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "go").await;
    until_children(&harness, accepted.run, "leased", 2).await;
    let held = until_children(&harness, accepted.run, "queued", 1).await.remove(0);
    assert_eq!(held.queue_deadline, None);
    let subject = held.id.to_string();
    let read =
        harness.engine.store().read(move |tx| timer::get(tx, TimerKind::QueueDeadline, &subject));
    assert_eq!(read.await.unwrap(), None);
    env.advance(Duration::from_secs(10));
    around.gate.add_permits(1);
    let ended = harness.wait(accepted.run).await;
    let told: Value = serde_json::from_str(&text(&ended)).unwrap();
    assert_eq!(told["completed"], 3, "{told}");
    let begun = query::run::get(harness.engine.store(), &harness.namespace, held.id).await.unwrap();
    let since = begun.queue_deadline.unwrap().since(held.created);
    assert!(since >= Duration::from_secs(70), "{since:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_wait_of_a_turn_has_its_own_time() {
    let env = Env::simulated(5);
    let around = Around { env: env.clone(), ..Around::default() };
    let lead = |request: &ChatRequest| {
        let results = crate::children::results(request);
        let wait = |id: &str, timeout: u64| {
            ("get_task_result", json!({"task_id": id, "wait": true, "timeout": timeout}))
        };
        match results.len() {
            0 => {
                let child = || ("child", json!({"task": "think", "background": true}));
                calls([child(), child()])
            }
            2 => calls([wait("task-1", 10_000), wait("task-2", 3_600_000)]),
            _ => says(format!("{} {}", results[2]["status"], results[3]["status"])),
        }
    };
    let harness = crew(&around, lead, |request| match told(request).as_str() {
        "" => call("hold", json!({})),
        _ => says("done"),
    });
    let harness = harness.await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "go").await;
    let parked = until_phase(&harness, accepted.run, "parked").await;
    until_children(&harness, accepted.run, "leased", 2).await;
    env.advance(Duration::from_secs(11));
    let looking = async {
        loop {
            let row = query::run::get(harness.engine.store(), &harness.namespace, accepted.run)
                .await
                .unwrap();
            if timeouts(&harness, accepted.run).await.len() < 2 {
                return row;
            }
            tokio::task::yield_now().await;
        }
    };
    let row = tokio::time::timeout(Duration::from_secs(20), looking).await.unwrap();
    assert_eq!((row.phase.as_str(), row.epoch), ("parked", parked.epoch), "the other one waits");
    assert_eq!(timeouts(&harness, accepted.run).await, [3_600_000]);
    around.gate.add_permits(1);
    let ended = harness.wait(accepted.run).await;
    assert!(text(&ended).ends_with(r#""completed""#), "{}", text(&ended));
    replay_all(&harness).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_got_its_yes_is_told_to_wait_for_its_children() {
    let around = Around::default();
    let lead = |request: &ChatRequest| match crate::children::results(request).len() {
        0 => calls([("child", json!({"task": "think"})), ("careful", json!({}))]),
        _ => says("both"),
    };
    let harness = crew(&around, lead, |request| match told(request).as_str() {
        "" => call("hold", json!({})),
        _ => says("done"),
    });
    let harness = harness.await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "go").await;
    let parked = until_phase(&harness, accepted.run, "parked").await;
    assert_eq!(parked.parked_for.map(WaitReason::as_str), Some("approval"));
    let open =
        query::approval::open(harness.engine.store(), &harness.namespace, None, 9).await.unwrap();
    assert_eq!(open.len(), 1);
    let yes = ApprovalDecision::Approve;
    harness.engine.approvals().answer(&harness.namespace, open[0].id, yes, "ada").await.unwrap();
    let still =
        query::run::get(harness.engine.store(), &harness.namespace, accepted.run).await.unwrap();
    assert_eq!(
        (still.phase.as_str(), still.parked_for.map(WaitReason::as_str)),
        ("parked", Some("child"))
    );
    let id = accepted.task;
    let row = harness.engine.store().read(move |tx| task::get(tx, id)).await.unwrap().unwrap();
    assert_eq!(row.waiting_for.map(WaitReason::as_str), Some("child"));
    named_by(&harness.engine, accepted.run, "parked_children", &[&accepted.run]).await;
    around.gate.add_permits(1);
    assert_eq!(text(&harness.wait(accepted.run).await), "both");
    replay_all(&harness).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_lead_is_the_last_that_its_log_tells() {
    let spawn =
        |name: &str| ("spawn_teammate", json!({"name": name, "template": "child", "task": "a"}));
    let lead = move |request: &ChatRequest| match crate::children::results(request).len() {
        0 => calls([spawn("ada"), spawn("bo")]),
        _ => call("careful", json!({})),
    };
    let harness = crew(&Around::default(), lead, |_| call("careful", json!({}))).await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "go").await;
    until_children(&harness, accepted.run, "parked", 2).await;
    until_phase(&harness, accepted.run, "parked").await;
    harness.engine.tasks().cancel(&harness.namespace, accepted.task).await.unwrap();
    assert_eq!(children_of(&harness, accepted.run).await.len(), 0);
    let kinds = harness.kinds(accepted.run).await;
    assert_eq!(kinds.last().map(String::as_str), Some("cancelled"), "{kinds:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_explanation_names_some_of_many_children() {
    let around = Around::default();
    let tasks: Vec<String> = (0..30).map(|number| format!("task {number}")).collect();
    let lead = calling("each", json!({ "tasks": tasks }));
    let harness = crew(&around, lead, |request| match told(request).as_str() {
        "" => call("hold", json!({})),
        _ => says("done"),
    });
    let harness = harness.await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "go").await;
    until_phase(&harness, accepted.run, "parked").await;
    let work = until_children(&harness, accepted.run, "leased", 2).await;
    let names: [&dyn std::fmt::Display; 4] = [&work[0].id, &work[1].id, &"30 runs", &"20 more"];
    let told = named_by(&harness.engine, accepted.run, "parked_children", &names).await;
    assert_eq!(told.related.len(), 10);
    harness.engine.runs().cancel(&harness.namespace, accepted.run).await.unwrap();
    for child in work {
        assert_eq!(harness.wait(child.id).await.status, RunStatus::Cancelled);
    }
    assert_eq!(children_of(&harness, accepted.run).await.len(), 0, "none of the others begins");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_of_a_task_with_many_runs_make_up_its_whole_log() {
    let tasks: Vec<String> = (0..12).map(|number| format!("task {number}")).collect();
    let lead = calling("each", json!({ "tasks": tasks }));
    let harness = crew(&Around::default(), lead, |_| says("done")).await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "go").await;
    harness.wait(accepted.run).await;
    let whole = query::event_log::of_task(
        harness.engine.store(),
        &harness.namespace,
        accepted.task,
        0,
        5000,
    )
    .await
    .unwrap();
    assert!(!whole.has_more && whole.entries.len() > 50);
    for limit in [1, 3, 7] {
        let (mut at, mut paged) = (0, Vec::new());
        loop {
            let page = query::event_log::of_task(
                harness.engine.store(),
                &harness.namespace,
                accepted.task,
                at,
                limit,
            )
            .await;
            let page = page.unwrap();
            at = page.next;
            paged.extend(page.entries);
            if !page.has_more {
                break;
            }
        }
        assert_eq!(paged, whole.entries, "{limit}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_parent_is_not_woken_by_steering_and_takes_its_children_with_it_when_interrupted()
{
    let lead = |request: &ChatRequest| match last_words(request).as_str() {
        "go" => calls([("child", json!({"task": "a"}))]),
        other => says(format!("re: {other}")),
    };
    let around = Around::default();
    let harness = crew(&around, lead, |_| call("hold", json!({}))).await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "go").await;
    until_phase(&harness, accepted.run, "parked").await;
    let child = until_children(&harness, accepted.run, "leased", 1).await.remove(0);
    let steer = InputRequest::text("by the way").mode(InputMode::Steer);
    harness.engine.inputs().send(&harness.namespace, accepted.task, steer).await.unwrap();
    let still =
        query::run::get(harness.engine.store(), &harness.namespace, accepted.run).await.unwrap();
    assert_eq!(still.phase, RunPhase::Parked);
    let stop = InputRequest::text("stop").mode(InputMode::Interrupt);
    harness.engine.inputs().send(&harness.namespace, accepted.task, stop).await.unwrap();
    assert_eq!(harness.wait(child.id).await.status, RunStatus::Cancelled);
    let ended = harness.wait(accepted.run).await;
    assert_eq!(text(&ended), "re: stop");
    replay_all(&harness).await;
}
