//! Values that outlive a run, under the engine: what one run sets another one sees, and a kill in between neither loses nor
//! repeats a change.

use std::path::Path;

use provost_agent::{Agent, Subagent};
use provost_core::command::TaskRequest;
use provost_core::id::name::Namespace;
use provost_core::recovery::EffectClass;
use provost_core::{Env, StateScope};
use provost_engine::{AgentRevision, Engine, EngineDeps, EngineError, Lease, Worker};
use provost_model::{ScriptedModel, ScriptedTurn, call, text as says};
use provost_store::query;
use provost_store::{Store, StoreOptions};
use provost_tool::{FnTool, GuardServices, ToolError, tool_fn};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::harness::{Harness, command, options, text};
use crate::worker_crash;

#[derive(Deserialize, JsonSchema)]
struct Name {
    name: String,
}

/// Counts a value up by one; `-` before the name takes it away.
fn count() -> FnTool {
    tool_fn("count", "Counts up", |cx, args: Name| async move {
        let state = cx.state().clone();
        if let Some(name) = args.name.strip_prefix('-') {
            return Ok(state.remove(name).unwrap_or_default().to_string());
        }
        let next = state.get::<u64>(&args.name).unwrap_or(0) + 1;
        let failed = |error: serde_json::Error| ToolError::failed(error.to_string());
        state.set(args.name, next).map_err(failed)?;
        Ok::<_, ToolError>(next.to_string())
    })
    .unwrap()
    .with_spec(|spec| spec.effect(EffectClass::Pure))
}

/// Counts what the message names, one after the other, and answers with the instructions that it was given.
fn answer(request: &provost_model::ChatRequest) -> ScriptedTurn {
    let last_said = request.messages.iter().rposition(|message| {
        message.tool_results().next().is_none() && message.tool_calls().next().is_none()
    });
    let said = last_said.map(|place| request.messages[place].text()).unwrap_or_default();
    let done = last_said.map_or(0, |place| {
        request.messages[place..]
            .iter()
            .filter(|message| message.tool_results().next().is_some())
            .count()
    });
    match said.split_whitespace().nth(done) {
        Some("child") => call("child", json!({"task": "user:visits"})),
        Some("show") | None => says(request.system.as_deref().unwrap_or_default()),
        Some(name) => call("count", json!({ "name": name })),
    }
}

const SHOWN: &str = "{{ session.visits | default(0) }} {{ user.visits | default(0) }} {{ app.visits | default(0) }}";

fn agents(_: &AgentRevision, _: &Lease) -> Result<Agent, EngineError> {
    let model = || ScriptedModel::from_fn(|request, _| answer(request));
    let child = Agent::builder("child", model()).tool(count()).build().unwrap();
    let agent = Agent::builder("default", model()).instructions(SHOWN).tool(count());
    Ok(agent.subagent(Subagent::new(&child, "Counts")).build().unwrap())
}

fn said(session: &str, user: &str, text: &str) -> TaskRequest {
    TaskRequest { user: Some(user.to_owned()), ..command(session, text) }
}

async fn ask(harness: &Harness, command: TaskRequest) -> String {
    let run = harness.engine.submit(&harness.namespace, command).await.unwrap().run;
    text(&harness.wait(run).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_sets_another_one_sees_as_far_as_the_name_says() {
    let harness = Harness::of(options(), Env::system(), agents).await;
    let _worker = harness.worker().await;
    let all = "session:visits user:visits user:visits app:visits own";
    assert_eq!(ask(&harness, said("a", "ada", all)).await, "0 0 0", "as it was when it began");
    assert_eq!(ask(&harness, said("a", "ada", "show")).await, "1 2 1");
    assert_eq!(ask(&harness, said("a", "bob", "show")).await, "1 0 1");
    assert_eq!(ask(&harness, said("b", "ada", "show")).await, "0 2 1");
    // Who hands it in is for whom it is, if nobody else is named.
    let own = TaskRequest { requested_by: Some("ada".to_owned()), ..command("c", "show") };
    assert_eq!(ask(&harness, own).await, "0 2 1");
    // A run below is for the same user.
    ask(&harness, said("d", "ada", "child")).await;
    assert_eq!(ask(&harness, said("d", "ada", "-user:visits")).await, "0 3 1");
    assert_eq!(ask(&harness, said("d", "ada", "show")).await, "0 0 1");
    let other = "other".parse::<Namespace>().unwrap();
    let app = StateScope::App;
    assert_eq!(
        query::shared_state::list(harness.engine.store(), &other, app, "", None, 10).await.unwrap(),
        []
    );
    let rows =
        query::shared_state::list(harness.engine.store(), &harness.namespace, app, "", None, 10)
            .await
            .unwrap();
    let rows: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.value.as_str())).collect();
    assert_eq!(rows, [("visits", "1")]);
    let gone =
        harness.engine.sessions().delete_state(&harness.namespace, StateScope::App, "").await;
    assert_eq!(gone.unwrap(), 1);
    assert_eq!(ask(&harness, said("d", "ada", "show")).await, "0 0 0");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_tells_what_changed_and_what_has_no_owner_is_refused() {
    let harness = Harness::of(options(), Env::system(), agents).await;
    let _worker = harness.worker().await;
    let run = harness.say("a", "session:visits user:visits own").await.run;
    harness.wait(run).await;
    let events = harness.events(run).await;
    let changed: Vec<Value> = events
        .iter()
        .filter(|event| event.kind == "state_changed")
        .map(|event| serde_json::from_str(event.body.as_deref().unwrap()).unwrap())
        .collect();
    let expected = json!({"changes": [{"name": "session:visits", "value": 1}]});
    assert_eq!(changed, [expected], "nobody is known for whom it runs");
}

/// Everything of one process.
async fn open(dir: &Path) -> (Engine, Worker) {
    let store = Store::open(StoreOptions::for_test(dir)).unwrap();
    let engine = Engine::new(
        EngineDeps::new(store, agents, GuardServices::default(), Env::system()),
        options(),
    );
    engine.put_agent(&Namespace::default(), "default", None, Default::default()).await.unwrap();
    let worker = engine.start().await.unwrap();
    (engine, worker)
}

fn is_recorded() -> TaskRequest {
    let key = Some("counted".to_owned());
    TaskRequest { idempotency_key: key, ..said("a", "ada", "user:visits user:visits") }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "started by another test in a process of its own"]
async fn node_that_counts() {
    let Some(dir) = worker_crash::dir() else { return };
    let (engine, _worker) = open(&dir).await;
    let accepted = engine.submit(&Namespace::default(), is_recorded()).await.unwrap();
    engine.runs().wait(&Namespace::default(), accepted.run).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_neither_loses_nor_repeats_a_change() {
    let places = [
        "model.answered",
        "tool.begun",
        "tool.finished",
        "tool.finished@2",
        "step.before@4",
        "step.after@4",
        "step.after@6",
        "attempt.before_settle",
        "run.ended",
    ];
    let namespace = Namespace::default();
    for place in places {
        let dir = tempfile::tempdir().unwrap();
        worker_crash::killed_at("node_that_counts", dir.path(), place).await;
        let (engine, _worker) = open(dir.path()).await;
        let run = engine.submit(&namespace, is_recorded()).await.unwrap().run;
        engine.runs().wait(&namespace, run).await.unwrap();
        let user = StateScope::User;
        let rows = query::shared_state::list(engine.store(), &namespace, user, "ada", None, 10)
            .await
            .unwrap();
        let rows: Vec<_> = rows.iter().map(|row| (row.name.as_str(), row.value.as_str())).collect();
        assert_eq!(rows, [("visits", "2")], "{place}");
        let next = engine.submit(&namespace, said("b", "ada", "show")).await.unwrap();
        assert_eq!(
            text(&engine.runs().wait(&namespace, next.run).await.unwrap()),
            "0 2 0",
            "{place}"
        );
    }
}
