//! The composition root: the one place that names the database, the engine, models and tools together.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use provost_core::Env;
use provost_engine::{AgentProfile, Engine, EngineDeps, EngineOptions, Focus, Lease, Worker};
use provost_model::{ChatModel, Endpoint, RetryPolicy, RoutedModel};
use provost_provider::wire::Wire;
use provost_provider::{
    Anthropic, BuildError, HttpModel, HttpModelBuilder, OpenAi, Providers, openai_compatible,
};
use provost_redact::Redactor;
use provost_session::SESSION_ID_BYTES_MAX;
use provost_store::Store;

use crate::command::AgentArgs;
use crate::data::{self, engine_problem};
use crate::demo::DemoModel;
use crate::discover::{self, Choice, Provider, Wanted, World};
use crate::problem::Problem;
use crate::recipe::{Kitchen, Recipe};
use crate::talk::Talk;
use crate::toolroom::{Site, Toolroom, ToolroomArgs};

/// How long it may take to reach a local server.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_millis(150);

/// Turns that one terminal works on at once.
const CAPACITY: usize = 4;

/// Everything that is decided before anything is opened or stored.
pub(crate) struct Plan {
    /// The model and why it was chosen.
    pub(crate) choice: Choice,
    recipe: Recipe,
    kitchen: Arc<Kitchen>,
    dir: PathBuf,
    name: Option<String>,
    toolroom: ToolroomArgs,
    roles: Vec<String>,
}

/// Everything a command needs to talk.
pub(crate) struct Boot {
    /// The conversation.
    pub(crate) talk: Talk,
    /// The model and why it was chosen.
    pub(crate) choice: Choice,
    /// What the agent is made of.
    pub(crate) recipe: Recipe,
    /// Where agents are made.
    pub(crate) kitchen: Arc<Kitchen>,
    /// Names and descriptions of the tools.
    pub(crate) tools: Vec<(String, String)>,
    /// What carries turns out and keeps the database open.
    pub(crate) works: Works,
}

/// What works in the background.
pub(crate) struct Works {
    engine: Engine,
    worker: Worker,
    room: Arc<Toolroom>,
}

impl Plan {
    /// Decides. `pace` is how long the demo model waits before each word.
    pub(crate) fn new(
        args: &AgentArgs,
        data: Option<&Path>,
        pace: Duration,
        is_interactive: bool,
    ) -> Result<Self, Problem> {
        let choice = choose(&args.wanted())?;
        let recipe = Recipe::new(args, &choice, is_interactive)?;
        let kitchen = Arc::new(Kitchen::new(pace));
        kitchen.open(&recipe, &choice)?;
        let name = args.session.as_deref().map(session_name).transpose()?;
        let dir = data::real_dir(data)?;
        let (toolroom, roles) = (args.toolroom.clone(), args.role.clone());
        Ok(Self { choice, recipe, kitchen, dir, name, toolroom, roles })
    }

    /// Uses the session with this name unless another is asked for.
    #[must_use]
    pub(crate) fn session_or(mut self, name: &str) -> Self {
        self.name.get_or_insert_with(|| name.to_owned());
        self
    }

    /// Opens the database and starts to work: what a dead terminal left in the session is taken up at once.
    pub(crate) async fn open(self) -> Result<Boot, Problem> {
        let Self { choice, recipe, kitchen, dir, name, toolroom, roles } = self;
        let focus = Focus::default();
        let options = EngineOptions {
            focus: Some(focus.clone()),
            capacity: CAPACITY,
            ..EngineOptions::default()
        };
        let store = data::open(&dir)?;
        let redactor = Redactor::new();
        let site = Site {
            dir: &dir,
            store: &store,
            redactor: &redactor,
            callbacks: None,
            roles,
            shell: recipe.shell(),
        };
        let room = Arc::new(Toolroom::open(&toolroom, site).await?);
        kitchen.equip(Arc::clone(&room));
        let deps = EngineDeps { workspaces: room.workspaces(), ..deps(store, &kitchen) };
        let engine = Engine::new(deps, options);
        let mut talk = Talk::open(&engine, &kitchen, &focus, name.as_deref()).await?;
        let described = recipe.tools(Some(&room))?.into_iter().map(|tool| {
            let def = tool.spec().def();
            (def.name.clone(), def.description.clone())
        });
        let tools = described.chain(room.described()).collect();
        let (stored, worker) = tokio::join!(talk.use_recipe(&recipe), engine.start());
        stored?;
        let worker = worker.map_err(|error| engine_problem(&error))?;
        let works = Works { engine, worker, room };
        Ok(Boot { talk, choice, recipe, kitchen, tools, works })
    }
}

impl Works {
    /// Lets what is under way come to an end, but not for longer than this; what is not finished then is given back, and
    /// whoever opens the session next goes on with it.
    pub(crate) async fn close(self, patience: Duration) {
        self.worker.stop(patience).await;
        self.room.close().await;
        self.engine.store().close().await;
    }
}

/// The dependencies of an engine whose agents this kitchen makes.
pub(crate) fn deps(store: Store, kitchen: &Arc<Kitchen>) -> EngineDeps {
    let kitchen = Arc::clone(kitchen);
    let build =
        move |profile: &AgentProfile, lease: &Lease| kitchen.build(profile, &lease.namespace);
    EngineDeps::new(store, build, Env::system())
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

/// Decides which model to use, from the real environment.
pub(crate) fn choose(wanted: &Wanted) -> Result<Choice, Problem> {
    let env = |name: &str| std::env::var(name).ok();
    let ollama = |address: &discover::Address| discover::ollama_models(address, PROBE_TIMEOUT);
    let world = World { env: &env, ollama: &ollama };
    discover::discover(wanted, &world)
}

/// The model of a decision: a route, if others stand in for it.
pub(crate) fn open_model(choice: &Choice, pace: Duration) -> Result<Arc<dyn ChatModel>, Problem> {
    if choice.stand_ins.is_empty() {
        return open_one(choice, pace, RetryPolicy::default());
    }
    let first = Choice { stand_ins: Vec::new(), ..choice.clone() };
    let mut route = RoutedModel::builder();
    for each in std::iter::once(&first).chain(&choice.stand_ins) {
        // The route tries again, and knows who else could be asked.
        let model = open_one(each, pace, RetryPolicy::never())?;
        route = route.endpoint(Endpoint::new(each.name(), model));
    }
    let route = route.build().map_err(|error| Problem::invalid(error.to_string()))?;
    Ok(Arc::new(route))
}

fn open_one(
    choice: &Choice,
    pace: Duration,
    retry: RetryPolicy,
) -> Result<Arc<dyn ChatModel>, Problem> {
    let refused = |error: BuildError| Problem::new(error.kind(), error.to_string());
    let model = match choice.provider {
        Provider::Demo => return Ok(Arc::new(DemoModel::new(pace))),
        Provider::Anthropic => finished(Anthropic::builder(&choice.model), choice, retry),
        Provider::Vendor(_) => {
            let env = |name: &str| std::env::var(name).ok();
            let builder = Providers::builtin().builder(&choice.name(), env).map_err(refused)?;
            finished(builder, choice, retry)
        }
        Provider::OpenAi => finished(OpenAi::builder(&choice.model), choice, retry),
        Provider::Ollama | Provider::Compatible => {
            let url = choice.base_url.as_deref().unwrap_or_default();
            let builder = openai_compatible(choice.provider.as_str(), url, &choice.model);
            finished(builder, choice, retry)
        }
    };
    Ok(Arc::new(model.map_err(refused)?))
}

/// What a decision says besides the provider and the model.
fn finished<W: Wire>(
    mut builder: HttpModelBuilder<W>,
    choice: &Choice,
    retry: RetryPolicy,
) -> Result<HttpModel, BuildError> {
    if let Some(url) = &choice.base_url {
        builder = builder.base_url(url);
    }
    if let Some(key) = &choice.key {
        builder = builder.api_key(key.clone());
    }
    builder.retry(retry).build()
}
