//! A durable team: its members are runs of their own, its book is a row, and a kill changes nothing of what comes of it.

use std::path::Path;
use std::time::Duration;

use provost_agent::Agent;
use provost_agent::team::Team;
use provost_core::Env;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunStatus;
use provost_engine::{Engine, EngineDeps, Lease, Worker};
use provost_model::{ChatRequest, ScriptedModel, call, calls, text as says};
use provost_store::query;
use provost_store::table::work::run::{self, RunRow};
use provost_store::{Store, StoreOptions, params};
use provost_tool::GuardServices;
use serde_json::{Value, json};

use crate::harness::{command, options, text};
use crate::subagents::last_words;
use crate::worker_crash;

/// Members of the team.
const MEMBERS: usize = 5;

/// Who has reported to the lead so far.
fn reported(request: &ChatRequest) -> Vec<String> {
    let results = request.messages.iter().flat_map(|message| message.tool_results());
    let mut names = Vec::new();
    for result in results.filter(|result| result.name == "wait_for_messages") {
        let Ok(Value::Array(messages)) = serde_json::from_str(&result.to_text()) else { continue };
        names.extend(messages.iter().map(|message| message["from"].as_str().unwrap().to_owned()));
    }
    names
}

/// An engine on a directory whose agent leads a team of five.
async fn open(dir: &Path) -> (Engine, Worker) {
    let store = Store::open(StoreOptions::for_test(dir)).unwrap();
    let agents = move |_: &provost_engine::AgentRevision, _: &Lease| {
        let lead = ScriptedModel::from_fn(move |request, _| {
            let spawned = request.messages.iter().any(|message| message.tool_calls().count() > 0);
            if !spawned {
                let spawn = |number: usize| {
                    let (name, task) = (format!("m{number}"), format!("part {number}"));
                    ("spawn_teammate", json!({"name": name, "template": "worker", "task": task}))
                };
                return calls((0..MEMBERS).map(spawn));
            }
            let mut names = reported(request);
            if names.len() < MEMBERS {
                return call("wait_for_messages", json!({"timeout": 20}));
            }
            names.sort();
            says(names.join(","))
        });
        let worker =
            ScriptedModel::from_fn(|request, _| says(format!("done: {}", last_words(request))));
        let worker = Agent::builder("worker", worker).build().unwrap();
        let team = Team::new("crew").template(&worker, "Does a part").max_size(MEMBERS);
        Ok(Agent::builder("default", lead).team(team).build().unwrap())
    };
    let engine = Engine::new(
        EngineDeps::new(store, agents, GuardServices::default(), Env::system()),
        options(),
    );
    engine.put_agent(&Default::default(), "default", None, Default::default()).await.unwrap();
    let worker = engine.start().await.unwrap();
    (engine, worker)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by another test in a process of its own"]
async fn node_that_leads() {
    let Some(dir) = worker_crash::dir() else { return };
    let (engine, _worker) = open(&dir).await;
    let accepted = engine.submit(&Default::default(), command("chat", "go")).await.unwrap();
    engine.runs().wait(&Default::default(), accepted.run).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_team_of_five_that_is_killed_goes_on_with_one_result_of_each_member() {
    for place in ["child.started", "child.started@3", "run.ended", "run.ended@3", "run.ended@5"] {
        let dir = tempfile::tempdir().unwrap();
        worker_crash::killed_at("node_that_leads", dir.path(), place).await;
        let (engine, _worker) = open(dir.path()).await;
        let read = engine.store().read(|tx| {
            let id = tx.fetch_one("SELECT id FROM run WHERE parent_run_id IS NULL", params![])?;
            run::get(tx, id)
        });
        let lead = read.await.unwrap().unwrap().id;
        let namespace = Namespace::default();
        let ended =
            tokio::time::timeout(Duration::from_secs(60), engine.runs().wait(&namespace, lead));
        let lead = ended.await.expect("it ends").unwrap();
        assert_eq!(lead.status, RunStatus::Ok, "{place}: {:?}", lead.detail);
        assert_eq!(text(&lead), "m0,m1,m2,m3,m4", "{place}");
        let id = lead.id;
        let rows: Vec<RunRow> = engine.store().read(move |tx| run::children(tx, id)).await.unwrap();
        assert_eq!(rows.len(), MEMBERS, "{place}: one run for each member");
        let page = query::event_log::of_task(engine.store(), &namespace, lead.task_id, 0, 5000)
            .await
            .unwrap();
        let of_kind = |kind: &str| {
            page.entries.iter().filter(|entry| entry.run == id && entry.kind == kind).count()
        };
        let told = (of_kind("teammate_spawned"), of_kind("teammate_complete"));
        assert_eq!(told, (MEMBERS, MEMBERS), "{place}: each member is told of once");
        let report = engine.runs().replay(&namespace, id).await.unwrap();
        assert!(report.is_consistent(), "{place}: {:?}", report.differences);
    }
}
