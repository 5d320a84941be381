//! A lead that waits for a person is interrupted: its members end with what they did, and its log tells everything once.

use std::time::Duration;

use provost_agent::Agent;
use provost_agent::team::Team;
use provost_bus::Topic;
use provost_core::Env;
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunPhase;
use provost_core::scheduling::InputMode;
use provost_engine::{Engine, EngineDeps, EngineError, InputRequest, Lease};
use provost_model::{ChatRequest, ScriptedModel, ScriptedTurn, call, text as says};
use provost_store::query;
use provost_store::table::work::run::{self, RunRow};
use provost_store::{Store, StoreOptions};
use provost_tool::{
    FnTool, GuardServices, RequiresApproval, ToolContext, ToolError, ToolOutput, ToolSpec,
};
use serde_json::json;

use crate::harness::{command, options, text};

fn risky() -> FnTool {
    let spec = ToolSpec::new("risky", "Needs a yes", json!({"type": "object"})).unwrap();
    FnTool::new(spec.approval(RequiresApproval::Always), |_permit, _cx: ToolContext| {
        Box::pin(async { Ok::<_, ToolError>(ToolOutput::text("did it")) })
    })
}

fn lead(request: &ChatRequest) -> ScriptedTurn {
    let said = |words: &str| request.messages.iter().any(|message| message.text() == words);
    let calls = request.messages.iter().map(|message| message.tool_calls().count()).sum();
    match calls {
        _ if said("stop") => says("stopped"),
        0usize => {
            call("spawn_teammate", json!({"name": "m", "template": "worker", "task": "part"}))
        }
        _ => call("risky", json!({})),
    }
}

async fn open(dir: &std::path::Path) -> Engine {
    let agents = |_: &provost_engine::AgentRevision, _: &Lease| {
        let worker = ScriptedModel::from_fn(|_, _| call("risky", json!({})));
        let worker = Agent::builder("worker", worker).tool(risky()).build().unwrap();
        let team = Team::new("crew").template(&worker, "Does a part");
        let model = ScriptedModel::from_fn(|request, _| lead(request));
        let agent = Agent::builder("default", model).tool(risky()).team(team).build();
        Ok::<_, EngineError>(agent.unwrap())
    };
    let store = Store::open(StoreOptions::for_test(dir)).unwrap();
    let engine = Engine::new(
        EngineDeps::new(store, agents, GuardServices::default(), Env::system()),
        options(),
    );
    let config = serde_json::from_value(json!({"policy": {"interactive": true}})).unwrap();
    engine.put_agent(&Namespace::default(), "default", None, config).await.unwrap();
    engine
}

/// Waits until a run is as the test wants it.
async fn until(engine: &Engine, found: impl AsyncFn() -> Option<RunRow>) -> RunRow {
    let mut hints = engine.store().bus().subscribe(Topic::Wakeups);
    let wait = async {
        loop {
            if let Some(row) = found().await {
                return row;
            }
            drop(tokio::time::timeout(Duration::from_millis(20), hints.recv()).await);
        }
    };
    tokio::time::timeout(Duration::from_secs(30), wait).await.expect("it comes to that")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parked_lead_that_is_interrupted_tells_of_its_members_end_once() {
    let (dir, namespace) = (tempfile::tempdir().unwrap(), Namespace::default());
    let engine = open(dir.path()).await;
    let _worker = engine.start().await.unwrap();
    let lead = engine.submit(&namespace, command("chat", "go")).await.unwrap().run;
    let parked = |row: RunRow| Some(row).filter(|row| row.phase == RunPhase::Parked);
    until(&engine, async || {
        parked(query::run::get(engine.store(), &namespace, lead).await.unwrap())
    })
    .await;
    until(&engine, async || {
        let children = engine.store().read(move |tx| run::children(tx, lead)).await.unwrap();
        children.into_iter().find_map(parked)
    })
    .await;
    let stop = InputRequest::text("stop").mode(InputMode::Interrupt);
    let receipt = engine.inputs().send(&namespace, lead, stop).await.unwrap();
    assert_eq!(receipt.run, lead);
    let ended = engine.runs().wait(&namespace, lead).await.unwrap();
    assert_eq!((ended.status.as_str(), text(&ended).as_str()), ("ok", "stopped"));
    let events = query::run::events(engine.store(), &namespace, lead, 0, 1000).await.unwrap();
    let numbers: Vec<u64> = events.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=events.len() as u64).collect::<Vec<_>>(), "each number once");
    let told = |kind: &str| events.iter().filter(|event| event.kind == kind).count();
    let counts = ["interrupt_requested", "teammate_stopped", "interrupted"].map(told);
    assert_eq!(counts, [1, 1, 1], "{events:?}");
}
