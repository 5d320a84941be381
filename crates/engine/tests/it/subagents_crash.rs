//! A fan-out whose process is killed at every place that matters: each child is there once and gives one result.

use std::path::Path;
use std::time::Duration;

use provost_agent::{Agent, FanOut};
use provost_core::Env;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunStatus;
use provost_engine::{Engine, EngineDeps, Lease, Worker};
use provost_model::{ScriptedModel, call, text as says};
use provost_store::query;
use provost_store::table::work::run::{self, RunRow};
use provost_store::{Store, StoreOptions, params};
use provost_tool::GuardServices;
use serde_json::{Value, json};

use crate::harness::{command, options, text};
use crate::subagents::{last_words, told};
use crate::worker_crash;

/// Children of the fan-out.
const CHILDREN: usize = 200;
/// Those at work at once.
const AT_ONCE: usize = 20;

/// An engine on a directory whose agent splits its work.
async fn open(dir: &Path, children: usize) -> (Engine, Worker) {
    let store = Store::open(StoreOptions::for_test(dir)).unwrap();
    let agents = move |_: &provost_engine::AgentRevision, _: &Lease| {
        let lead = ScriptedModel::from_fn(move |request, _| match told(request).as_str() {
            "" => {
                let tasks: Vec<String> =
                    (0..children).map(|number| format!("task {number}")).collect();
                call("each", json!({ "tasks": tasks }))
            }
            told => says(told.to_owned()),
        });
        let below =
            ScriptedModel::from_fn(|request, _| says(format!("done: {}", last_words(request))));
        let child = Agent::builder("child", below).build().unwrap();
        let each = FanOut::new(&child, "each", "Does many things")
            .max_items(children)
            .concurrency(AT_ONCE);
        Ok(Agent::builder("default", lead).fan_out(each).build().unwrap())
    };
    let engine = Engine::new(
        EngineDeps::new(store, agents, GuardServices::default(), Env::system()),
        options(),
    );
    engine.put_agent(&Default::default(), "default", None, Default::default()).await.unwrap();
    let worker = engine.start().await.unwrap();
    (engine, worker)
}

async fn begin(children: usize) {
    let Some(dir) = worker_crash::dir() else { return };
    let (engine, _worker) = open(&dir, children).await;
    let accepted = engine.submit(&Default::default(), command("chat", "go")).await.unwrap();
    engine.runs().wait(&Default::default(), accepted.run).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by another test in a process of its own"]
async fn node_that_splits_a_lot() {
    begin(CHILDREN).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by another test in a process of its own"]
async fn node_that_splits_a_little() {
    begin(4).await;
}

/// Opens what a killed process left and lets it come to its end.
async fn goes_on(dir: &Path, children: usize, place: &str) {
    let (engine, _worker) = open(dir, children).await;
    let read = engine.store().read(|tx| {
        let id = tx.fetch_one("SELECT id FROM run WHERE parent_run_id IS NULL", params![])?;
        run::get(tx, id)
    });
    let parent = read.await.unwrap().unwrap().id;
    let namespace = Namespace::default();
    let ended =
        tokio::time::timeout(Duration::from_secs(60), engine.runs().wait(&namespace, parent));
    let parent = ended.await.expect("it ends").unwrap();
    assert_eq!(parent.status, RunStatus::Ok, "{place}: {:?}", parent.detail);
    let told: Value = serde_json::from_str(&text(&parent)).unwrap();
    assert_eq!(told["completed"], children, "{place}: {told}");
    for number in 0..children {
        let result = &told["results"][number]["result"];
        assert_eq!(result, &json!(format!("done: task {number}")), "{place}");
    }
    let id = parent.id;
    let rows: Vec<RunRow> = engine.store().read(move |tx| run::children(tx, id)).await.unwrap();
    assert_eq!(rows.len(), children, "{place}: one run for each task");
    let report = engine.runs().replay(&namespace, id).await.unwrap();
    assert!(report.is_consistent(), "{place}: {:?}", report.differences);
    assert_one_ordered_stream(&engine, &parent, children, place).await;
}

/// The stream of the parent's task has everything that happened below it, in the order of the log, each thing once.
async fn assert_one_ordered_stream(engine: &Engine, parent: &RunRow, children: usize, place: &str) {
    let namespace = Namespace::default();
    let (mut at, mut ended, mut last) = (0, 0, 0);
    loop {
        let page = query::event_log::of_task(engine.store(), &namespace, parent.task_id, at, 500)
            .await
            .unwrap();
        for entry in &page.entries {
            assert!(entry.pos > last, "{place}: positions rise");
            last = entry.pos;
            if entry.run != parent.id {
                let below = entry.child.as_ref().expect("it says whose it is");
                assert_eq!(below.agent, "default/child");
                ended += usize::from(entry.kind == "finished");
            }
        }
        at = page.next;
        if !page.has_more {
            break;
        }
    }
    assert_eq!(ended, children, "{place}: each child ends once");
}

#[tokio::test(flavor = "multi_thread")]
async fn s136_s141_a_fan_out_of_200_that_is_killed_gives_each_task_one_result() {
    let dir = tempfile::tempdir().unwrap();
    // In the middle: about half of the children have ended.
    worker_crash::killed_at("node_that_splits_a_lot", dir.path(), "run.ended@100").await;
    goes_on(dir.path(), CHILDREN, "run.ended@100").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fan_out_goes_on_wherever_it_was_killed() {
    let places = [
        "tool.begun",
        "child.started",
        "settle.before_commit",
        "run.ended",
        "run.ended@3",
        "run.ended@4",
        "tool.finished",
        "run.ended@5",
    ];
    for place in places {
        let dir = tempfile::tempdir().unwrap();
        worker_crash::killed_at("node_that_splits_a_little", dir.path(), place).await;
        goes_on(dir.path(), 4, place).await;
    }
}
