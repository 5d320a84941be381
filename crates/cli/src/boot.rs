//! The composition root: the only place that names the store, the engine, models, tools and the API together.
//!
//! Every entry point builds a [`Runtime`] here, from the bottom up: store, tools, agents, engine, API. Nothing is set later.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use provost_api::Client;
use provost_core::id::name::Namespace;
use provost_core::{Env, RunId};
pub(crate) use provost_engine::DEFAULT_AGENT;
use provost_engine::{BootGuard, Engine, EngineDeps, EngineOptions, Focus, Worker};
use provost_host::AgentFactory;
use provost_host::agent::{AgentSpec, HostDefaults};
use provost_host::model::{self, Choice, Models};
use provost_host::tool::{ToolConfig, ToolDeps, ToolProvider};
use provost_model::Cassette;
use provost_redact::Redactor;
use provost_server::{App, AppOptions, LocalTransport, MasterKey};
use provost_session::SESSION_ID_BYTES_MAX;
use provost_store::Store;

use crate::args::AgentArgs;
use crate::catalog::ToolCatalog;
use crate::chat::talk::Talk;
use crate::data::{self, engine_problem};
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
    /// Those of the sessions in [`Runtime::focus`], for one person.
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
            Self::Focused => {
                EngineOptions { focus: Some(focus.clone()), capacity: LOCAL_CAPACITY, ..usual }
            }
            Self::Service { capacity } => EngineOptions {
                capacity: *capacity,
                boot_guard: Some(BootGuard::default()),
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
    pub(crate) engine: Engine,
    /// The API over them.
    pub(crate) app: App,
    /// Builds the agents of runs.
    pub(crate) agents: Arc<AgentFactory>,
    /// Tools, and what surrounds them.
    pub(crate) tools: Arc<ToolProvider>,
    /// The sessions that a focused worker serves.
    pub(crate) focus: Focus,
    worker: Option<Worker>,
}

/// Builds a runtime. It accepts work at once; [`Runtime::start`] starts a worker.
pub(crate) async fn build(config: Config) -> Result<Runtime, Problem> {
    let Config { dir, redactor, models, defaults, tools, work, open_metrics } = config;
    let store = data::open(&dir)?;
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

/// What a conversation is decided to be before anything is opened or stored.
pub(crate) struct Plan {
    /// The model and why it was chosen.
    pub(crate) choice: Choice,
    spec: AgentSpec,
    models: Arc<Models>,
    dir: PathBuf,
    name: Option<String>,
    tools: ToolConfig,
}

/// Everything a command needs to talk.
pub(crate) struct Boot {
    /// The conversation.
    pub(crate) talk: Talk,
    /// The model and why it was chosen.
    pub(crate) choice: Choice,
    /// What the agent is made of.
    pub(crate) spec: AgentSpec,
    /// The opened models.
    pub(crate) models: Arc<Models>,
    /// Names and descriptions of the tools.
    pub(crate) tools: Vec<(String, String)>,
    /// What carries turns out and keeps the database open.
    pub(crate) runtime: Runtime,
}

impl Plan {
    /// Decides. `pace` is how long the demo model waits before each word.
    pub(crate) fn new(
        args: &AgentArgs,
        data: Option<&Path>,
        pace: Duration,
        is_interactive: bool,
    ) -> Result<Self, Problem> {
        let choice = model::choose(&args.model_request())?;
        let spec = AgentSpec::new(args.options(is_interactive)?, &choice)?;
        let models = Arc::new(Models::new(pace));
        models.open(spec.model_request(), &choice)?;
        let name = args.session.as_deref().map(session_name).transpose()?;
        let dir = data::real_dir(data)?;
        let tools = args.tools.config(args.role.clone(), spec.shell().cloned())?;
        Ok(Self { choice, spec, models, dir, name, tools })
    }

    /// Uses the session with this name unless another is asked for.
    #[must_use]
    pub(crate) fn session_or(mut self, name: &str) -> Self {
        self.name.get_or_insert_with(|| name.to_owned());
        self
    }

    /// Opens the database and starts to work: what a dead terminal left in the session is taken up at once.
    pub(crate) async fn open(self) -> Result<Boot, Problem> {
        let Self { choice, spec, models, dir, name, tools } = self;
        let config = Config { tools, ..Config::local(&dir, Arc::clone(&models)) };
        let mut runtime = build(config).await?;
        let mut talk = Talk::open(&runtime, name.as_deref()).await?;
        let described = spec.tools(&runtime.tools)?.into_iter().map(|tool| {
            let def = tool.spec().def();
            (def.name.clone(), def.description.clone())
        });
        let tools = described.chain(runtime.tools.described()).collect();
        let (stored, started) = tokio::join!(talk.use_agent(&spec), runtime.start());
        stored?;
        started?;
        Ok(Boot { talk, choice, spec, models, tools, runtime })
    }
}

/// The name of a session, if it can be one.
fn session_name(name: &str) -> Result<String, Problem> {
    if name.trim().is_empty() {
        let problem = Problem::invalid("--session needs a name");
        return Err(problem.help("write --session NAME, or leave it out"));
    }
    if name.len() > SESSION_ID_BYTES_MAX {
        let what = format!(
            "the name of the session has {} bytes, and {SESSION_ID_BYTES_MAX} are allowed",
            name.len()
        );
        return Err(Problem::invalid(what).help("choose a shorter name with --session"));
    }
    Ok(name.to_owned())
}
