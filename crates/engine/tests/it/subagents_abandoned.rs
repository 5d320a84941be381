//! Agents that use agents, where the one above is given up: what it started goes with it.

use std::sync::Arc;
use std::time::Duration;

use provost_agent::{Agent, Subagent};
use provost_core::lifecycle::{RunPhase, RunStatus};
use provost_core::recovery::OutcomeCode;
use provost_core::scheduling::InputMode;
use provost_core::{Env, RunId};
use provost_engine::{InputRequest, Lease};
use provost_model::{ChatRequest, ScriptedModel, ScriptedTurn, call, calls, text as says};
use provost_store::query;
use provost_store::table::work::run::{self, RunRow};
use serde_json::json;
use tokio::sync::Semaphore;

use crate::children::{hold_tool, replay_all};
use crate::harness::{Harness, options, text};
use crate::subagents::last_words;

/// A stage whose agent has a sub-agent and one that goes on without it; everybody has a tool that waits at a gate that stays
/// closed.
async fn crew(lead: impl Fn(&ChatRequest) -> ScriptedTurn + Send + Sync + 'static) -> Harness {
    let (lead, gate) = (Arc::new(lead), Arc::new(Semaphore::new(0)));
    let agents = move |_: &provost_engine::AgentRevision, _: &Lease| {
        let lead = Arc::clone(&lead);
        let above = ScriptedModel::from_fn(move |request, _| lead(request));
        let below = || ScriptedModel::from_fn(|_, _| call("hold", json!({})));
        let child = Agent::builder("child", below()).tools([hold_tool(&gate)]).build().unwrap();
        let loose = Agent::builder("loose", below()).tools([hold_tool(&gate)]).build().unwrap();
        let agent = Agent::builder("default", above)
            .subagent(Subagent::new(&child, "Does one thing"))
            .subagent(Subagent::new(&loose, "Goes on by itself").detached())
            .tools([hold_tool(&gate)]);
        Ok(agent.build().unwrap())
    };
    Harness::of(options(), Env::system(), agents).await
}

/// Waits until so many children of a run are at work.
async fn working_children(harness: &Harness, parent: RunId, number: usize) -> Vec<RunRow> {
    let looking = async {
        loop {
            let read = harness.engine.store().read(move |tx| run::live_children(tx, parent));
            let children = read.await.unwrap();
            if children.iter().filter(|row| row.phase == RunPhase::Leased).count() == number {
                return children;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), looking).await.expect("they begin")
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupt_of_a_parent_at_work_ends_the_children_of_its_call_and_no_others() {
    let harness = crew(|request| match last_words(request).as_str() {
        "go" => calls([
            ("loose", json!({"task": "a", "background": true})),
            ("child", json!({"task": "b"})),
            ("hold", json!({})),
        ]),
        other => says(format!("re: {other}")),
    });
    let harness = harness.await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "go").await;
    let children = working_children(&harness, accepted.run, 2).await;
    let parent =
        query::run::get(harness.engine.store(), &harness.namespace, accepted.run).await.unwrap();
    assert_eq!(parent.phase, RunPhase::Leased, "one of its calls is at work");
    let stop = InputRequest::text("stop").mode(InputMode::Interrupt);
    harness.engine.inputs().send(&harness.namespace, accepted.task, stop).await.unwrap();
    let ended = harness.wait(accepted.run).await;
    assert_eq!((ended.status.as_str(), text(&ended).as_str()), ("ok", "re: stop"), "{ended:?}");
    for child in children {
        if child.spawn.as_deref().is_some_and(|spawn| spawn.contains("detached")) {
            let left = query::run::get(harness.engine.store(), &harness.namespace, child.id)
                .await
                .unwrap();
            assert_eq!(left.phase, RunPhase::Leased, "it does not belong to the call");
        } else {
            let ended = harness.wait(child.id).await;
            assert_eq!(ended.outcome_code.map(OutcomeCode::as_str), Some("cancelled_by_parent"));
        }
    }
    replay_all(&harness).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_task_takes_with_it_what_would_have_outlived_its_run() {
    let harness = crew(|request| match last_words(request).as_str() {
        "go" => call("loose", json!({"task": "a", "background": true})),
        _ => call("hold", json!({})),
    });
    let harness = harness.await;
    let _worker = harness.worker().await;
    let accepted = harness.say("chat", "go").await;
    let child = working_children(&harness, accepted.run, 1).await.remove(0);
    harness.engine.tasks().cancel(&harness.namespace, accepted.task).await.unwrap();
    assert_eq!(harness.wait(accepted.run).await.status, RunStatus::Cancelled);
    let ended = harness.wait(child.id).await;
    assert_eq!(ended.outcome_code.map(OutcomeCode::as_str), Some("cancelled_by_parent"));
    let task =
        query::task::get(harness.engine.store(), &harness.namespace, child.task_id).await.unwrap();
    assert_eq!(task.state.as_str(), "cancelled");
}
