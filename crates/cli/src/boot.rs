//! The composition root: the only module that uses the store, the engine, the models, the tools and the API.
//!
//! Every entry point builds a [`Runtime`] here, from the bottom up: store, tools, agents, engine, API. Nothing is set
//! later.

pub(crate) mod database;
mod manifests;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use provost_api::Client;
use provost_core::id::name::Namespace;
use provost_core::resource::AgentSpec;
use provost_core::{Env, RunId};
pub(crate) use provost_engine::DEFAULT_AGENT;
use provost_engine::{
    CrashLoopGuard, Engine, EngineDeps, EngineError, EngineOptions, ServedSessions, Worker,
};
use provost_host::AgentFactory;
use provost_host::agent::HostDefaults;
use provost_host::model::Models;
use provost_host::tool::{ToolConfig, ToolDeps, ToolProvider};
use provost_model::Cassette;
use provost_redact::Redactor;
use provost_server::{App, AppOptions, LocalTransport, WebhookSigningKey};
use provost_store::Store;
use provost_tool::Tool;

pub(crate) use self::manifests::Manifests;
use crate::catalog::ToolCatalog;
use crate::error::CliError;

/// Maximum number of concurrent runs in a process that serves a single user.
const LOCAL_CAPACITY: usize = 4;

/// Name of the file with the key from which the signing keys of webhooks are derived.
const KEY_FILE: &str = "master.key";

/// Configuration of a runtime: its database, models, tools and worker.
pub(crate) struct Config {
    /// Data directory.
    pub(crate) dir: PathBuf,
    /// Redactor of known secrets.
    pub(crate) redactor: Redactor,
    /// Models of the agents.
    pub(crate) models: Arc<Models>,
    /// What this process has for its agents.
    pub(crate) defaults: HostDefaults,
    /// Configuration of the tools.
    pub(crate) tools: ToolConfig,
    /// Runs that the worker claims, and its concurrency.
    pub(crate) work: Work,
    /// True if `/metrics` does not require a token.
    pub(crate) open_metrics: bool,
}

/// Runs that the worker of a process claims, and its concurrency.
pub(crate) enum Work {
    /// Only runs of the sessions that [`LocalRuns::execute`] adds.
    Focused,
    /// All runs. The process is restarted by a supervisor after a crash, so the crash-loop guard is active.
    Service {
        /// Maximum number of concurrent runs.
        capacity: usize,
    },
}

impl Work {
    /// Returns the options of the engine for this kind of work.
    fn options(&self, focus: &ServedSessions) -> EngineOptions {
        let defaults = EngineOptions::default();
        match self {
            Self::Focused => EngineOptions {
                served_sessions: Some(focus.clone()),
                capacity: LOCAL_CAPACITY,
                ..defaults
            },
            Self::Service { capacity } => EngineOptions {
                capacity: *capacity,
                crash_loop_guard: Some(CrashLoopGuard::default()),
                ..defaults
            },
        }
    }
}

impl Config {
    /// Returns the configuration of a process that serves a single user.
    pub(crate) fn local(dir: &Path, models: Arc<Models>, defaults: HostDefaults) -> Self {
        Self {
            dir: dir.to_owned(),
            redactor: Redactor::new(),
            models,
            defaults,
            tools: ToolConfig::default(),
            work: Work::Focused,
            open_metrics: false,
        }
    }
}

/// Components of a process: the engine, its server, its tools and an optional worker.
pub(crate) struct Runtime {
    /// Engine of the durable tasks and runs.
    engine: Engine,
    /// API over the engine.
    pub(crate) app: App,
    /// Factory of the agents of runs.
    agents: Arc<AgentFactory>,
    /// Configuration of the tools.
    pub(crate) tools: Arc<ToolProvider>,
    /// Sessions that a focused worker serves.
    focus: ServedSessions,
    worker: Option<Worker>,
}

/// Builds a runtime. It accepts tasks immediately; [`Runtime::start`] starts a worker.
pub(crate) async fn build(config: Config) -> Result<Runtime, CliError> {
    let Config { dir, redactor, models, defaults, tools, work, open_metrics } = config;
    let store = database::open(&dir)?;
    let deps = ToolDeps { dir: &dir, store: &store, redactor: &redactor };
    let tools = Arc::new(ToolProvider::open(&tools, deps).await?);
    let agents = Arc::new(AgentFactory::new(models, defaults, Arc::clone(&tools)));
    let deps = EngineDeps {
        store,
        agents: Arc::clone(&agents) as _,
        guard: tools.guard_services(),
        env: Env::system(),
        channels: HashMap::new(),
        workspaces: tools.workspace_probe(),
    };
    let focus = ServedSessions::default();
    let engine = Engine::new(deps, work.options(&focus));
    let key = WebhookSigningKey::open(&dir.join(KEY_FILE))
        .map_err(|error| CliError::io("the webhook key", &error))?;
    let options = AppOptions {
        open_metrics,
        webhook_signing_key: Some(key),
        tools: Some(Arc::new(ToolCatalog(Arc::clone(&tools)))),
        ..AppOptions::default()
    };
    let app = App::new(engine.clone(), options);
    Ok(Runtime { engine, app, agents, tools, focus, worker: None })
}

impl Runtime {
    /// Returns a client of the API in this process.
    pub(crate) fn client(&self, namespace: Namespace) -> Client {
        Client::new(LocalTransport::new(self.app.clone()), namespace)
    }

    /// Returns the manifests of this process.
    pub(crate) fn manifests(&self) -> Manifests {
        Manifests { tools: Arc::clone(&self.tools), engine: self.engine.clone() }
    }

    /// Returns the built-in tools of an agent in this process.
    pub(crate) fn builtin_tools(&self, spec: &AgentSpec) -> Result<Vec<Arc<dyn Tool>>, CliError> {
        Ok(self.agents.builtin_tools(spec)?)
    }

    /// Returns a handle that lets the worker of this process execute single sessions.
    pub(crate) fn local_runs(&self) -> LocalRuns {
        LocalRuns {
            engine: self.engine.clone(),
            agents: Arc::clone(&self.agents),
            focus: self.focus.clone(),
        }
    }

    /// Exports the model calls of a run as a cassette.
    pub(crate) async fn cassette(
        &self,
        namespace: &Namespace,
        run: RunId,
    ) -> Result<Cassette, CliError> {
        self.engine.runs().export(namespace, run).await.map_err(|error| to_cli_error(&error))
    }

    /// Returns the database.
    pub(crate) fn store(&self) -> &Store {
        self.engine.store()
    }

    /// Starts a worker. Does nothing if the worker is already started.
    pub(crate) async fn start(&mut self) -> Result<(), CliError> {
        if self.worker.is_none() {
            let started = self.engine.start().await.map_err(|error| to_cli_error(&error))?;
            self.worker = Some(started);
        }
        Ok(())
    }

    /// Stops the worker and closes the tools and the database. Runs get this time to finish; unfinished runs are
    /// requeued, and another process resumes them.
    pub(crate) async fn close(self, timeout: Duration) {
        if let Some(worker) = self.worker {
            worker.stop(timeout).await;
        }
        self.tools.close().await;
        self.engine.store().close().await;
    }
}

/// Lets the worker of this process execute the runs of single sessions.
#[derive(Clone)]
pub(crate) struct LocalRuns {
    engine: Engine,
    agents: Arc<AgentFactory>,
    focus: ServedSessions,
}

impl LocalRuns {
    /// Adds a session to the sessions that the worker of this process executes.
    pub(crate) fn execute(&self, namespace: &Namespace, session: &str) {
        self.focus.add(namespace, session);
    }

    /// Returns an error if this process cannot execute an unfinished run of an agent, for example because the key is
    /// missing.
    pub(crate) async fn check_executable(
        &self,
        namespace: &Namespace,
        agent: &str,
    ) -> Result<(), CliError> {
        let agent = self.engine.agent(namespace, agent).await;
        let agent = agent.map_err(|error| to_cli_error(&error))?;
        self.agents.prepare(&agent).await.map_err(|error| {
            let message = format!(
                "the session has an unfinished run, and this process cannot build its agent: {}",
                error.message
            );
            let hint = error.hint.unwrap_or_else(|| "use another --session".to_owned());
            CliError::new(error.kind, message).hint(hint)
        })
    }
}

/// Converts an engine error, with a hint for its kind.
fn to_cli_error(error: &EngineError) -> CliError {
    CliError::new(error.kind(), error.to_string())
}
