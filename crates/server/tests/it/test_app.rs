//! A server with a real engine and a scripted model in this process.

use provost_bus::Topic;
use provost_core::resource::AgentSpec;
use provost_store::query;
use std::time::Duration;

use provost_agent::{Agent, AgentBuilder};
use provost_api::{Client, NewTask, TaskReceipt};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::RunPhase;
use provost_core::{Env, RunId};
use provost_engine::{AgentRevision, Engine, EngineDeps, EngineOptions, Lease, Worker};
use provost_model::{ChatRequest, ScriptedModel, ScriptedTurn};
use provost_server::{App, AppOptions, LocalTransport};
use provost_store::table::work::run::RunRow;
use provost_store::{Store, StoreOptions};
use provost_tool::{
    FnTool, GuardServices, RequiresApproval, ToolContext, ToolError, ToolOutput, ToolSpec,
};
use serde_json::json;
use tempfile::TempDir;

/// A server, its engine and its client.
pub(crate) struct TestApp {
    pub(crate) engine: Engine,
    pub(crate) app: App,
    pub(crate) client: Client,
    pub(crate) worker: Option<Worker>,
    _dir: TempDir,
}

impl TestApp {
    /// Starts a server with a worker and a model with scripted turns.
    pub(crate) async fn with_turns(turns: Vec<ScriptedTurn>) -> Self {
        let mut test_app = Self::idle(turns).await;
        test_app.worker = Some(test_app.engine.start().await.unwrap());
        test_app
    }

    /// Starts a server without a worker and a model with scripted turns.
    pub(crate) async fn idle(turns: Vec<ScriptedTurn>) -> Self {
        let model = turns.into_iter().fold(ScriptedModel::new(), ScriptedModel::turn);
        Self::with_agent(move || Agent::builder("default", model.clone())).await
    }

    /// Starts a server with a worker and a model function. The agent has the tools `risky`, which requires an approval, and
    /// `ask_user`.
    pub(crate) async fn with_model(
        answer: impl Fn(&ChatRequest, usize) -> ScriptedTurn + Send + Sync + Clone + 'static,
    ) -> Self {
        let mut test_app = Self::with_agent(move || {
            let model = ScriptedModel::from_fn(answer.clone());
            Agent::builder("default", model).tool(risky()).tool(provost_engine::ask_user().unwrap())
        })
        .await;
        test_app.worker = Some(test_app.engine.start().await.unwrap());
        test_app
    }

    /// Starts a server without a worker for an agent.
    pub(crate) async fn with_agent(
        agent: impl Fn() -> AgentBuilder + Send + Sync + 'static,
    ) -> Self {
        Self::with(agent, |deps| deps).await
    }

    /// Starts a server without a worker for an agent, with changed dependencies of the engine.
    pub(crate) async fn with(
        agent: impl Fn() -> AgentBuilder + Send + Sync + 'static,
        change: impl FnOnce(EngineDeps) -> EngineDeps,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(StoreOptions::for_test(dir.path())).unwrap();
        let agents = move |_: &AgentRevision, _: &Lease| Ok(agent().build().unwrap());
        let options = EngineOptions { poll: Duration::from_millis(50), ..EngineOptions::default() };
        let deps = EngineDeps::new(store, agents, GuardServices::default(), Env::system());
        let deps = change(deps);
        let engine = Engine::new(deps, options);
        let config = AgentSpec {
            policy: serde_json::from_value(json!({"interactive": true})).unwrap(),
            ..AgentSpec::default_for("default")
        };
        let default = engine.put_agent(&Namespace::default(), "default", None, config).await;
        default.unwrap();
        let app = App::new(engine.clone(), AppOptions::default());
        let client = Client::new(LocalTransport::new(app.clone()), Namespace::default());
        Self { engine, app, client, worker: None, _dir: dir }
    }

    /// Submits a task with a text message in a session.
    pub(crate) async fn submit_text(&self, session: &str, text: &str) -> TaskReceipt {
        let session = Some(session.parse().unwrap());
        self.client.submit(&NewTask { session, ..NewTask::text(text) }).await.unwrap()
    }

    /// Waits until a run meets a condition.
    pub(crate) async fn wait_until(
        &self,
        run: RunId,
        condition: impl Fn(&RunRow) -> bool,
    ) -> RunRow {
        let mut wakeups = self.engine.store().bus().subscribe(Topic::Wakeups);
        let wait = async {
            loop {
                let row =
                    query::run::get(self.engine.store(), &Namespace::default(), run).await.unwrap();
                if condition(&row) {
                    return row;
                }
                drop(tokio::time::timeout(Duration::from_millis(50), wakeups.recv()).await);
            }
        };
        tokio::time::timeout(Duration::from_secs(20), wait)
            .await
            .expect("the run meets the condition")
    }

    /// Waits until a run has ended.
    pub(crate) async fn ended(&self, run: RunId) -> RunRow {
        self.wait_until(run, |row| row.ended.is_some()).await
    }

    /// Waits until a run is parked.
    pub(crate) async fn parked(&self, run: RunId) -> RunRow {
        self.wait_until(run, |row| row.phase == RunPhase::Parked).await
    }
}

pub(crate) fn risky() -> FnTool {
    let spec = ToolSpec::new("risky", "Something that a person decides", json!({"type": "object"}));
    let spec = spec.unwrap().approval(RequiresApproval::Always);
    FnTool::new(spec, |_, _: ToolContext| {
        Box::pin(async { Ok::<_, ToolError>(ToolOutput::text("risky did it")) })
    })
}
