//! The composition root: the only place that names the store, the engine, models, tools and the API together.
//!
//! Every entry point builds a [`Runtime`] here, from the bottom up: store, tools, agents, engine, API. Nothing is set later.

pub(crate) mod database;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use provost_api::Client;
use provost_core::id::name::Namespace;
use provost_core::{Env, RunId};
pub(crate) use provost_engine::DEFAULT_AGENT;
use provost_engine::{BootGuard, Engine, EngineDeps, EngineError, EngineOptions, Focus, Worker};
use provost_host::AgentFactory;
use provost_host::agent::HostDefaults;
use provost_host::model::Models;
use provost_host::tool::{ToolConfig, ToolDeps, ToolProvider};
use provost_model::Cassette;
use provost_redact::Redactor;
use provost_server::{App, AppOptions, LocalTransport, MasterKey};
use provost_store::Store;

use crate::catalog::ToolCatalog;
use crate::problem::Problem;

/// Runs that a process works on at once when it serves one person.
const LOCAL_CAPACITY: usize = 4;

/// The file of the key from which the keys of webhooks are derived.
const KEY_FILE: &str = "master.key";

/// What a runtime is built from.
pub(crate) struct Config {
    /// The data directory.
    pub(crate) dir: PathBuf,
    /// The values that are never shown.
    pub(crate) redactor: Redactor,
    /// The models of agents.
    pub(crate) models: Arc<Models>,
    /// For agents that others have described; without it only the agents of this program are built.
    pub(crate) defaults: Option<HostDefaults>,
    /// Tools, and what surrounds them.
    pub(crate) tools: ToolConfig,
    /// Which runs the worker takes, and how many at once.
    pub(crate) work: Work,
    /// True if `/metrics` needs no token.
    pub(crate) open_metrics: bool,
}

/// Which runs the worker of a process takes, and how many at once.
pub(crate) enum Work {
    /// Those of the sessions that [`LocalRuns::execute`] names, for one person.
    Focused,
    /// All. The service is started again by itself if it crashes.
    Service {
        /// Runs at work at once.
        capacity: usize,
    },
}

impl Work {
    fn options(&self, focus: &Focus) -> EngineOptions {
        let usual = EngineOptions::default();
        match self {
            Self::Focused => EngineOptions {
                served_sessions: Some(focus.clone()),
                capacity: LOCAL_CAPACITY,
                ..usual
            },
            Self::Service { capacity } => EngineOptions {
                capacity: *capacity,
                crash_loop_guard: Some(BootGuard::default()),
                ..usual
            },
        }
    }
}

impl Config {
    /// The configuration of a process that serves one person.
    pub(crate) fn local(dir: &Path, models: Arc<Models>) -> Self {
        Self {
            dir: dir.to_owned(),
            redactor: Redactor::new(),
            models,
            defaults: None,
            tools: ToolConfig::default(),
            work: Work::Focused,
            open_metrics: false,
        }
    }
}

/// Everything that an entry point uses.
pub(crate) struct Runtime {
    /// Durable tasks and runs.
    engine: Engine,
    /// The API over them.
    pub(crate) app: App,
    /// Builds the agents of runs.
    agents: Arc<AgentFactory>,
    /// Tools, and what surrounds them.
    pub(crate) tools: Arc<ToolProvider>,
    /// The sessions that a focused worker serves.
    focus: Focus,
    worker: Option<Worker>,
}

/// Builds a runtime. It accepts work at once; [`Runtime::start`] starts a worker.
pub(crate) async fn build(config: Config) -> Result<Runtime, Problem> {
    let Config { dir, redactor, models, defaults, tools, work, open_metrics } = config;
    let store = database::open(&dir)?;
    let deps = ToolDeps { dir: &dir, store: &store, redactor: &redactor };
    let tools = Arc::new(ToolProvider::open(&tools, deps).await?);
    let agents = Arc::new(AgentFactory::new(models, defaults, Arc::clone(&tools)));
    let deps = EngineDeps {
        store,
        agents: Arc::clone(&agents) as _,
        env: Env::system(),
        channels: HashMap::new(),
        workspaces: tools.workspaces(),
    };
    let focus = Focus::default();
    let engine = Engine::new(deps, work.options(&focus));
    let key = MasterKey::open(&dir.join(KEY_FILE))
        .map_err(|error| Problem::io("the key of webhooks", &error))?;
    let options = AppOptions {
        open_metrics,
        master_key: Some(key),
        tools: Some(Arc::new(ToolCatalog(Arc::clone(&tools)))),
        ..AppOptions::default()
    };
    let app = App::new(engine.clone(), options);
    Ok(Runtime { engine, app, agents, tools, focus, worker: None })
}

impl Runtime {
    /// A client of the API in this process.
    pub(crate) fn client(&self, namespace: Namespace) -> Client {
        Client::new(LocalTransport::new(self.app.clone()), namespace)
    }

    /// Executes runs of single sessions in this process.
    pub(crate) fn local_runs(&self) -> LocalRuns {
        LocalRuns {
            engine: self.engine.clone(),
            agents: Arc::clone(&self.agents),
            focus: self.focus.clone(),
        }
    }

    /// The model calls of a run, to be played back in a test.
    pub(crate) async fn cassette(
        &self,
        namespace: &Namespace,
        run: RunId,
    ) -> Result<Cassette, Problem> {
        self.engine.runs().export(namespace, run).await.map_err(|error| engine_problem(&error))
    }

    /// The database.
    pub(crate) fn store(&self) -> &Store {
        self.engine.store()
    }

    /// Starts a worker, unless there is one.
    pub(crate) async fn start(&mut self) -> Result<(), Problem> {
        if self.worker.is_none() {
            let started = self.engine.start().await.map_err(|error| engine_problem(&error))?;
            self.worker = Some(started);
        }
        Ok(())
    }

    /// Ends everything. Runs get this time to finish; unfinished ones are given back, and another process resumes them.
    pub(crate) async fn close(self, timeout: Duration) {
        if let Some(worker) = self.worker {
            worker.stop(timeout).await;
        }
        self.tools.close().await;
        self.engine.store().close().await;
    }
}

/// Executes the runs of single sessions in this process.
#[derive(Clone)]
pub(crate) struct LocalRuns {
    engine: Engine,
    agents: Arc<AgentFactory>,
    focus: Focus,
}

impl LocalRuns {
    /// Lets the worker of this process execute a session, too.
    pub(crate) fn execute(&self, namespace: &Namespace, session: &str) {
        self.focus.add(namespace, session);
    }

    /// Fails if this process cannot execute an unfinished run of an agent: the key may be missing.
    pub(crate) async fn check(&self, namespace: &Namespace, agent: &str) -> Result<(), Problem> {
        let agent = self.engine.agent(namespace, agent).await;
        let agent = agent.map_err(|error| engine_problem(&error))?;
        self.agents.prepare(&agent).await.map_err(|error| {
            let what = format!(
                "a turn of this session is not finished, and its agent cannot be used here: {}",
                error.message
            );
            let help = error.hint.unwrap_or_else(|| "use another --session".to_owned());
            Problem::new(error.kind, what).help(help)
        })
    }
}

/// A failure of the engine as a problem. Its sentence says what to do.
fn engine_problem(error: &EngineError) -> Problem {
    Problem::new(error.kind(), error.to_string())
}
