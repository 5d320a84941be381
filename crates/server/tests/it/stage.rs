//! A server over a real engine with a scripted model, in this process.

use provost_bus::Topic;
use provost_store::query;
use std::time::Duration;

use provost_agent::{Agent, AgentBuilder};
use provost_api::{Accepted, Client, NewTask};
use provost_core::id::name::Namespace;
use provost_core::{Env, RunId};
use provost_engine::{AgentConfig, AgentProfile, Engine, EngineDeps, EngineOptions, Lease, Worker};
use provost_model::{ChatRequest, ScriptedModel, Turn};
use provost_server::{App, AppOptions, LocalTransport};
use provost_store::table::work::run::RunRow;
use provost_store::{Store, StoreOptions};
use provost_tool::{Approval, FnTool, ToolCx, ToolError, ToolOutput, ToolSpec};
use serde_json::json;
use tempfile::TempDir;

/// A server, its engine and its client.
pub(crate) struct Stage {
    pub(crate) engine: Engine,
    pub(crate) app: App,
    pub(crate) client: Client,
    pub(crate) worker: Option<Worker>,
    _dir: TempDir,
}

impl Stage {
    /// A server whose model says these things, with a worker.
    pub(crate) async fn saying(turns: Vec<Turn>) -> Self {
        let mut stage = Self::idle(turns).await;
        stage.worker = Some(stage.engine.start().await.unwrap());
        stage
    }

    /// The same without a worker.
    pub(crate) async fn idle(turns: Vec<Turn>) -> Self {
        let model = turns.into_iter().fold(ScriptedModel::new(), ScriptedModel::turn);
        Self::of(move || Agent::builder("default", model.clone())).await
    }

    /// A server with a worker, whose agent answers by a function and has tools: `risky` asks a person first, `ask_user` asks
    /// in words.
    pub(crate) async fn answering(
        answer: impl Fn(&ChatRequest, usize) -> Turn + Send + Sync + Clone + 'static,
    ) -> Self {
        let mut stage = Self::of(move || {
            let model = ScriptedModel::answering(answer.clone());
            Agent::builder("default", model).tool(risky()).tool(provost_engine::ask_user().unwrap())
        })
        .await;
        stage.worker = Some(stage.engine.start().await.unwrap());
        stage
    }

    /// A server without a worker whose agent is made like this.
    pub(crate) async fn of(agent: impl Fn() -> AgentBuilder + Send + Sync + 'static) -> Self {
        Self::with(agent, |deps| deps).await
    }

    /// The same with further dependencies of its engine.
    pub(crate) async fn with(
        agent: impl Fn() -> AgentBuilder + Send + Sync + 'static,
        complete: impl FnOnce(EngineDeps) -> EngineDeps,
    ) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(StoreOptions::for_test(dir.path())).unwrap();
        let agents = move |_: &AgentProfile, _: &Lease| Ok(agent().build().unwrap());
        let options = EngineOptions { poll: Duration::from_millis(50), ..EngineOptions::default() };
        let deps = EngineDeps::new(store, agents, Env::system());
        let deps = complete(deps);
        let engine = Engine::new(deps, options);
        let config = AgentConfig {
            policy: serde_json::from_value(json!({"interactive": true})).unwrap(),
            ..AgentConfig::default_for("default")
        };
        let default = engine.put_agent(&Namespace::default(), "default", None, config).await;
        default.unwrap();
        let app = App::new(engine.clone(), AppOptions::default());
        let client = Client::new(LocalTransport::new(app.clone()), Namespace::default());
        Self { engine, app, client, worker: None, _dir: dir }
    }

    /// Hands in a text for a session.
    pub(crate) async fn say(&self, session: &str, text: &str) -> Accepted {
        let session = Some(session.parse().unwrap());
        self.client.submit(&NewTask { session, ..NewTask::text(text) }).await.unwrap()
    }

    /// Waits until a run stands as it should.
    pub(crate) async fn until(&self, run: RunId, wanted: impl Fn(&RunRow) -> bool) -> RunRow {
        let mut hints = self.engine.store().bus().subscribe(Topic::Wakeups);
        let waiting = async {
            loop {
                let row =
                    query::run::get(self.engine.store(), &Namespace::default(), run).await.unwrap();
                if wanted(&row) {
                    return row;
                }
                drop(tokio::time::timeout(Duration::from_millis(50), hints.recv()).await);
            }
        };
        tokio::time::timeout(Duration::from_secs(20), waiting).await.expect("it comes to that")
    }

    /// Waits until a run has ended.
    pub(crate) async fn ended(&self, run: RunId) -> RunRow {
        self.until(run, |row| row.ended.is_some()).await
    }

    /// Waits until a run waits for somebody.
    pub(crate) async fn parked(&self, run: RunId) -> RunRow {
        self.until(run, |row| row.phase == "parked").await
    }
}

pub(crate) fn risky() -> FnTool {
    let spec = ToolSpec::new("risky", "Something that a person decides", json!({"type": "object"}));
    let spec = spec.unwrap().approval(Approval::Always);
    FnTool::new(spec, |_, _: ToolCx| {
        Box::pin(async { Ok::<_, ToolError>(ToolOutput::text("risky did it")) })
    })
}
