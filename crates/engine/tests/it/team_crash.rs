//! A run that asks a sub-agent, lets another work in the background, collects it and hands over: killed at every step, it comes
//! to the same end with each child once.

use std::path::Path;
use std::time::Duration;

use provost_agent::{Agent, Handoff, Subagent};
use provost_core::Env;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunStatus;
use provost_engine::{Engine, EngineDeps, EngineError, Lease, Worker};
use provost_model::{ChatRequest, ScriptedModel, call, text as says};
use provost_store::table::work::run::{self, RunRow};
use provost_store::{Store, StoreOptions, params};
use provost_tool::GuardServices;
use serde_json::{Value, json};

use crate::children::results;
use crate::harness::{command, options, text};
use crate::subagents::last_words;
use crate::worker_crash;

/// What the lead does next, by what it has been told.
fn lead(request: &ChatRequest) -> provost_model::ScriptedTurn {
    let told = results(request);
    match told.len() {
        0 => call("child", json!({"task": "first"})),
        1 => call("child", json!({"task": "second", "background": true})),
        2 => call("get_task_result", json!({"task_id": "task-1", "wait": true})),
        _ => call("transfer_to_closer", json!({"reason": "it is late"})),
    }
}

/// The last agent says everything that it was given.
fn closer(request: &ChatRequest) -> provost_model::ScriptedTurn {
    let told = results(request);
    let collected = told[2]["result"].as_str().unwrap_or("?").to_owned();
    says(format!("{}; {collected}", told[0].as_str().unwrap_or("?")))
}

async fn open(dir: &Path) -> (Engine, Worker) {
    let agents = |_: &provost_engine::AgentRevision, _: &Lease| {
        let below =
            ScriptedModel::from_fn(|request, _| says(format!("did {}", last_words(request))));
        let child = Agent::builder("child", below).build().unwrap();
        let closer = Agent::builder("closer", ScriptedModel::from_fn(|request, _| closer(request)));
        let agent = Agent::builder("default", ScriptedModel::from_fn(|request, _| lead(request)))
            .subagent(Subagent::new(&child, "Does one thing"))
            .handoff(Handoff::to(&closer.build().unwrap(), "Closes"))
            .build();
        Ok::<_, EngineError>(agent.unwrap())
    };
    let store = Store::open(StoreOptions::for_test(dir)).unwrap();
    let engine = Engine::new(
        EngineDeps::new(store, agents, GuardServices::default(), Env::system()),
        options(),
    );
    engine.put_agent(&Namespace::default(), "default", None, Default::default()).await.unwrap();
    let worker = engine.start().await.unwrap();
    (engine, worker)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by another test in a process of its own"]
async fn node_with_a_crew() {
    let Some(dir) = worker_crash::dir() else { return };
    let (engine, _worker) = open(&dir).await;
    let accepted = engine.submit(&Namespace::default(), command("chat", "go")).await.unwrap();
    engine.runs().wait(&Namespace::default(), accepted.run).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crew_that_is_killed_anywhere_comes_to_the_same_end() {
    let steps = (2..=16).map(|hit| format!("step.after@{hit}"));
    let others =
        ["child.started", "child.started@2", "run.ended", "run.ended@2", "settle.before_commit@2"];
    for place in steps.chain(others.map(str::to_owned)) {
        let dir = tempfile::tempdir().unwrap();
        worker_crash::killed_at("node_with_a_crew", dir.path(), &place).await;
        let (engine, _worker) = open(dir.path()).await;
        let read = engine.store().read(|tx| {
            let id = tx.fetch_one("SELECT id FROM run WHERE parent_run_id IS NULL", params![])?;
            run::get(tx, id)
        });
        let id = read.await.unwrap().unwrap().id;
        let namespace = Namespace::default();
        let ended =
            tokio::time::timeout(Duration::from_secs(60), engine.runs().wait(&namespace, id));
        let ended = ended.await.expect("it ends").unwrap();
        assert_eq!(ended.status, RunStatus::Ok, "{place}: {:?}", ended.detail);
        assert_eq!(text(&ended), "did first; did second", "{place}");
        let result: Value = serde_json::from_str(ended.result.as_deref().unwrap()).unwrap();
        assert_eq!(result["agent"], "closer", "{place}");
        let rows: Vec<RunRow> = engine.store().read(move |tx| run::children(tx, id)).await.unwrap();
        assert_eq!(rows.len(), 2, "{place}: each child once");
        let report = engine.runs().replay(&namespace, id).await.unwrap();
        assert!(report.is_consistent(), "{place}: {:?}", report.differences);
    }
}
