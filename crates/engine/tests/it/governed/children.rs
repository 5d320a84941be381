//! A policy governs the runs below a run, and whoever started the run above has started them.

use std::sync::{Arc, Mutex};

use provost_agent::{Agent, Subagent};
use provost_bus::Topic;
use provost_core::Env;
use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_engine::{AgentRevision, Engine, EngineDeps, EngineError, Lease};
use provost_model::{ChatRequest, ScriptedModel, ScriptedTurn, call, text as says};
use provost_store::query;
use provost_store::table::work::run;
use provost_store::{Store, StoreOptions};
use provost_tool::{FnTool, GuardServices, ToolContext, ToolError, ToolOutput, ToolSpec};
use serde_json::{Value, json};

use super::{Law, Policy};
use crate::cluster::last_result;
use crate::harness::{command, options, text};

/// Calls a tool and says what it was told.
fn calls(
    tool: &'static str,
    arguments: Value,
) -> impl Fn(&ChatRequest, usize) -> ScriptedTurn + Clone {
    move |request, _| match last_result(request).as_str() {
        "" => call(tool, arguments.clone()),
        told => says(format!("told: {told}")),
    }
}

fn opaque() -> FnTool {
    let spec = ToolSpec::new("opaque", "A tool", json!({"type": "object"})).unwrap();
    FnTool::new(spec, |_permit, _cx: ToolContext| {
        Box::pin(async { Ok::<_, ToolError>(ToolOutput::text("did it")) })
    })
}

/// A governed agent with a sub-agent that nobody governs by itself.
async fn open(dir: &std::path::Path, policy: Policy) -> Engine {
    let guard = Law(Arc::new(Mutex::new(policy))).guard();
    let agents = move |_: &AgentRevision, _: &Lease| {
        let below = ScriptedModel::from_fn(calls("opaque", json!({})));
        // The engine replaces the services of both agents, which would allow every call.
        let helper = Agent::builder("helper", below).tool(opaque());
        let helper = helper.guard_services(GuardServices::default()).build().unwrap();
        let above = ScriptedModel::from_fn(calls("helper", json!({"task": "x"})));
        let agent = Agent::builder("default", above)
            .guard_services(GuardServices::default())
            .subagent(Subagent::new(&helper, "Helps"))
            .build();
        Ok::<_, EngineError>(agent.unwrap())
    };
    let store = Store::open(StoreOptions::for_test(dir)).unwrap();
    let engine = Engine::new(EngineDeps::new(store, agents, guard, Env::system()), options());
    let config = serde_json::from_value(json!({"policy": {"interactive": true}})).unwrap();
    engine.put_agent(&Namespace::default(), "default", None, config).await.unwrap();
    engine
}

fn go() -> TaskRequest {
    TaskRequest { requested_by: Some("ada".to_owned()), ..command("chat", "go") }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_is_governed_like_the_run_above_it() {
    let (dir, namespace) = (tempfile::tempdir().unwrap(), Namespace::default());
    let deny = Policy { verdict: "deny", ..Policy::allowing() };
    let engine = open(dir.path(), deny).await;
    let _worker = engine.start().await.unwrap();
    let run = engine.submit(&namespace, go()).await.unwrap().run;
    let told = text(&engine.runs().wait(&namespace, run).await.unwrap());
    assert!(told.contains("rule `opaque` denies"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_started_the_run_above_has_started_the_child() {
    let (dir, namespace) = (tempfile::tempdir().unwrap(), Namespace::default());
    let engine = open(dir.path(), Policy::asking(json!({"not_requester": true}))).await;
    let _worker = engine.start().await.unwrap();
    let lead = engine.submit(&namespace, go()).await.unwrap().run;
    let mut hints = engine.store().bus().subscribe(Topic::Wakeups);
    let asked = async {
        loop {
            if let [asked] = query::approval::open(engine.store(), &namespace, None, 10)
                .await
                .unwrap()
                .as_slice()
            {
                return asked.clone();
            }
            drop(tokio::time::timeout(std::time::Duration::from_millis(20), hints.recv()).await);
        }
    };
    let asked = tokio::time::timeout(std::time::Duration::from_secs(30), asked).await.unwrap();
    let child = asked.run_id;
    let row = engine.store().read(move |tx| run::get(tx, child)).await.unwrap().unwrap();
    assert_eq!(row.parent_run_id, Some(lead));
    let own = engine
        .approvals()
        .approve(&namespace, asked.id, Default::default(), "ada")
        .await
        .unwrap_err();
    assert_eq!(own.code(), "own_approval");
    engine.approvals().approve(&namespace, asked.id, Default::default(), "bob").await.unwrap();
    let told = text(&engine.runs().wait(&namespace, lead).await.unwrap());
    assert!(told.contains("did it"), "{told}");
}
