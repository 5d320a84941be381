//! A database, agents with scripted models and counted tools, and workers that can be taken away.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use provost_agent::Agent;
use provost_core::Env;
use provost_core::command::TaskRequest;
use provost_core::id::name::{Namespace, SessionName};
use provost_core::recovery::EffectClass;
use provost_core::resource::AgentSpec;
use provost_engine::{
    AgentProvider, AgentRevision, DeliveryAdapter, Engine, EngineDeps, EngineError, EngineOptions,
    Lease, Worker,
};
use provost_model::{ChatRequest, ScriptedModel, ScriptedTurn};
use provost_store::query;
use provost_store::table::work::run::RunRow;
use provost_store::table::work::run_event::RunEventRow;
use provost_store::{Store, StoreOptions};
use provost_tool::{FnTool, GuardServices, ToolContext, ToolError, ToolSpec};
use serde_json::{Value, json};
use tempfile::TempDir;

type Answer = dyn Fn(&ChatRequest, usize) -> ScriptedTurn + Send + Sync;

/// What the tools of all agents of a stage did, by effect key and by tool.
#[derive(Default)]
pub(crate) struct Effects {
    by_tool: Mutex<HashMap<String, usize>>,
    pub(crate) model_calls: AtomicUsize,
}

impl Effects {
    pub(crate) fn of(&self, tool: &str) -> usize {
        self.by_tool.lock().unwrap().get(tool).copied().unwrap_or(0)
    }

    pub(crate) fn model_calls(&self) -> usize {
        self.model_calls.load(Ordering::SeqCst)
    }
}

/// One database with everything around it.
pub(crate) struct Harness {
    pub(crate) dir: TempDir,
    pub(crate) env: Env,
    pub(crate) engine: Engine,
    pub(crate) effects: Arc<Effects>,
    pub(crate) namespace: Namespace,
}

/// Options with short times, so that tests need not wait.
pub(crate) fn options() -> EngineOptions {
    EngineOptions { poll: Duration::from_millis(20), ..EngineOptions::default() }
}

impl Harness {
    /// A stage whose agents answer by this function.
    pub(crate) async fn new(
        answer: impl Fn(&ChatRequest, usize) -> ScriptedTurn + Send + Sync + 'static,
    ) -> Self {
        Self::with(options(), answer).await
    }

    pub(crate) async fn with(
        options: EngineOptions,
        answer: impl Fn(&ChatRequest, usize) -> ScriptedTurn + Send + Sync + 'static,
    ) -> Self {
        Self::with_deps(options, answer, |deps| deps).await
    }

    /// The same with further dependencies of its engine.
    pub(crate) async fn with_deps(
        options: EngineOptions,
        answer: impl Fn(&ChatRequest, usize) -> ScriptedTurn + Send + Sync + 'static,
        complete: impl FnOnce(EngineDeps) -> EngineDeps,
    ) -> Self {
        let effects = Arc::<Effects>::default();
        let agents = agents(Arc::clone(&effects), Arc::new(answer));
        let harness = Self::of_deps(options, Env::system(), agents, complete).await;
        Self { effects, ..harness }
    }

    /// A stage with agents of its own, on a clock of its own.
    pub(crate) async fn of(options: EngineOptions, env: Env, agents: impl AgentProvider) -> Self {
        Self::of_deps(options, env, agents, |deps| deps).await
    }

    /// The same with further dependencies of its engine.
    pub(crate) async fn of_deps(
        options: EngineOptions,
        env: Env,
        agents: impl AgentProvider,
        complete: impl FnOnce(EngineDeps) -> EngineDeps,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let opened = StoreOptions { env: env.clone(), ..StoreOptions::for_test(dir.path()) };
        let store = Store::open(opened).unwrap();
        let engine = Engine::new(
            complete(EngineDeps::new(store, agents, GuardServices::default(), env.clone())),
            options,
        );
        let effects = Arc::default();
        let namespace = Namespace::default();
        let config =
            AgentSpec { policy: patch(json!({"interactive": true})), ..Default::default() };
        engine.put_agent(&namespace, "default", None, config).await.unwrap();
        Self { dir, env, engine, effects, namespace }
    }

    pub(crate) async fn worker(&self) -> Worker {
        self.engine.start().await.unwrap()
    }

    pub(crate) async fn say(&self, session: &str, text: &str) -> provost_engine::SubmitReceipt {
        let command = command(session, text);
        self.engine.submit(&self.namespace, command).await.unwrap()
    }

    pub(crate) async fn wait(&self, run: provost_core::RunId) -> RunRow {
        let waiting = self.engine.runs().wait(&self.namespace, run);
        tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("the run ends").unwrap()
    }

    pub(crate) async fn events(&self, run: provost_core::RunId) -> Vec<RunEventRow> {
        query::run::events(self.engine.store(), &self.namespace, run, 0, 10_000).await.unwrap()
    }

    pub(crate) async fn kinds(&self, run: provost_core::RunId) -> Vec<String> {
        self.events(run).await.into_iter().map(|event| event.kind).collect()
    }
}

/// The dependencies with one channel.
pub(crate) fn with_channel(
    name: &str,
    adapter: impl DeliveryAdapter,
) -> impl FnOnce(EngineDeps) -> EngineDeps {
    let channel: (String, Arc<dyn DeliveryAdapter>) = (name.to_owned(), Arc::new(adapter));
    move |deps| EngineDeps { channels: [channel].into(), ..deps }
}

pub(crate) fn patch(value: Value) -> provost_core::execution_policy::ExecutionPolicyPatch {
    serde_json::from_value(value).unwrap()
}

pub(crate) fn command(session: &str, text: &str) -> TaskRequest {
    let session_id: SessionName = session.parse().unwrap();
    TaskRequest { session_id: Some(session_id), ..TaskRequest::text(text) }
}

/// The text a run ended with.
pub(crate) fn text(run: &RunRow) -> String {
    let result: Value = serde_json::from_str(run.result.as_deref().unwrap_or("{}")).unwrap();
    result["text"].as_str().unwrap_or_default().to_owned()
}

/// Agents with one tool of each effect class, named after it.
fn agents(
    effects: Arc<Effects>,
    answer: Arc<Answer>,
) -> impl Fn(&AgentRevision, &Lease) -> Result<Agent, EngineError> + Send + Sync + 'static {
    move |_, _| {
        let (answer, is_recorded) = (Arc::clone(&answer), Arc::clone(&effects));
        let model = ScriptedModel::from_fn(move |request, call| {
            is_recorded.model_calls.fetch_add(1, Ordering::SeqCst);
            answer(request, call)
        });
        let mut builder = Agent::builder("default", model);
        for class in EffectClass::ALL {
            builder = builder.tool(tool(*class, &effects));
        }
        Ok(builder.build().unwrap())
    }
}

fn tool(class: EffectClass, effects: &Arc<Effects>) -> FnTool {
    let effects = Arc::clone(effects);
    let schema = json!({"type": "object"});
    let spec = ToolSpec::new(class.as_str(), "An effect", schema).unwrap().effect(class);
    FnTool::new(spec, move |permit, _cx: ToolContext| {
        let effects = Arc::clone(&effects);
        let arguments = permit.arguments().clone();
        Box::pin(async move {
            *effects.by_tool.lock().unwrap().entry(class.as_str().to_owned()).or_default() += 1;
            Ok::<_, ToolError>(provost_tool::ToolOutput::text(format!("did {arguments}")))
        })
    })
}
