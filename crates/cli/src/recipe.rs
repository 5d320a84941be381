//! What an agent is made of, as it is stored, and making one of it.
//!
//! Invariant: a key is never stored. Whoever makes the agent, maybe after a crash and in another process, takes it from its own
//! environment.

mod house;

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;

use provost_agent::context::Truncate;
use provost_agent::{Agent, BuildError};
use provost_core::work::{PolicyPatch, RetryPolicy, body_hash};
use provost_core::{Env, ErrorKind, Limits};
use provost_engine::{AgentConfig, AgentProfile, EngineError, ask_user, child_tools};
use provost_model::ChatModel;
use provost_tool::Tool;
use serde::{Deserialize, Serialize};

pub(crate) use self::house::House;
use crate::boot::{choose, open_model};
use crate::command::AgentArgs;
use crate::discover::{Choice, Wanted};
use crate::problem::Problem;
use crate::tool::{self, Files, Keeps, Shell};
use crate::toolroom::{DECLARED, Toolroom, Wish};

/// The name under which agents speak in events.
pub(crate) const AGENT: &str = "provost";

/// How the names of stored agents begin; what follows tells apart those that are made differently.
pub(crate) const NAME_PREFIX: &str = "terminal-";

/// Digits of a name behind the prefix.
const NAME_DIGITS: usize = 16;

/// Where a stored agent has what the engine does not know.
const MORE: &str = "terminal";

/// What the agent is told unless somebody says otherwise.
const INSTRUCTIONS: &str = "You are a helpful assistant in a terminal. Answer briefly, in Markdown. \
     Use your tools when they help; if a call is not approved, say so and go on without it.";

/// What an agent is made of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Recipe {
    /// `provider/model`, or `demo`; nothing leaves the choice to whoever makes the agent.
    #[serde(skip)]
    pub(crate) model: String,
    /// The instructions.
    #[serde(skip)]
    system: String,
    /// True if a person can be asked.
    #[serde(skip)]
    is_interactive: bool,
    /// Where the provider is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    base_url: Option<String>,
    /// The variable that holds the key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    api_key_env: Option<String>,
    /// False if the model gets no tools.
    tools: bool,
    /// True if it may ask a person in words and wait for the answer.
    #[serde(skip)]
    ask_user: bool,
    /// True if it may start other tasks and wait for them.
    #[serde(skip)]
    children: bool,
    /// Where notes are written.
    notes_dir: PathBuf,
    /// The files that it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    files: Option<Files>,
    /// The command lines that it may run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    shell: Option<Shell>,
    /// Where the tools, the rules and the roles are declared that it was made with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    resources: Option<PathBuf>,
    /// The declared tools that it asks for; a terminal's agent gets all.
    #[serde(skip)]
    declared: Option<Vec<String>>,
    /// Rounds of tool calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    max_turns: Option<u32>,
    /// Milliseconds for one turn of the conversation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timeout_ms: Option<u64>,
}

impl Recipe {
    /// What the command line asks for, with the model that was chosen.
    pub(crate) fn new(
        args: &AgentArgs,
        choice: &Choice,
        is_interactive: bool,
    ) -> Result<Self, Problem> {
        // Another process that goes on with a run may be somewhere else.
        let notes_dir = std::path::absolute(&args.notes_dir)
            .map_err(|error| Problem::io("the notes directory", &error))?;
        let resources = args.toolroom.resources.as_ref().map(std::path::absolute).transpose();
        let resources = resources.map_err(|error| Problem::io("the resources", &error))?;
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        let recipe = Self {
            model: String::new(),
            system: args.system.clone().unwrap_or_else(|| INSTRUCTIONS.to_owned()),
            is_interactive,
            base_url: None,
            api_key_env: None,
            tools: !args.no_tools,
            ask_user: false,
            children: false,
            notes_dir,
            files: Files::new(args.workspace.as_ref(), args.write)?,
            shell: Shell::new(&args.shell)?,
            resources,
            declared: None,
            max_turns: args.max_turns,
            timeout_ms: args.timeout.map(millis),
        };
        Ok(recipe.with_model(choice, args.api_key_env.clone()))
    }

    /// The same with another model.
    #[must_use]
    pub(crate) fn with_model(mut self, choice: &Choice, api_key_env: Option<String>) -> Self {
        self.model = choice.full_name();
        self.base_url = choice.base_url.clone();
        self.api_key_env = api_key_env;
        self
    }

    /// How it is stored.
    pub(crate) fn config(&self) -> Result<AgentConfig, Problem> {
        let defect = |error: serde_json::Error| Problem::new(ErrorKind::Bug, error.to_string());
        // A person who waits decides whether to try again; a crash is not a try.
        let retry = RetryPolicy { max_attempts: 1, ..RetryPolicy::default() };
        Ok(AgentConfig {
            model: Some(self.model.clone()),
            system_prompt: Some(self.system.clone()),
            policy: PolicyPatch {
                interactive: Some(self.is_interactive),
                retry: Some(retry),
                ..PolicyPatch::default()
            },
            more: [(MORE.to_owned(), serde_json::to_value(self).map_err(defect)?)]
                .into_iter()
                .collect(),
            ..AgentConfig::default()
        })
    }

    /// The name of the stored agent: the same for the same recipe, so that no other process can change it meanwhile.
    pub(crate) fn name(config: &AgentConfig) -> Result<String, Problem> {
        let hash =
            body_hash(config).map_err(|error| Problem::new(ErrorKind::Bug, error.to_string()))?;
        let digits: String =
            hash.chars().filter(char::is_ascii_hexdigit).take(NAME_DIGITS).collect();
        Ok(format!("{NAME_PREFIX}{digits}"))
    }

    fn read(profile: &AgentProfile) -> Result<Self, String> {
        let config = &profile.config;
        let stored = config.more.get(MORE).ok_or("it was not made by a terminal")?;
        let recipe = Self::deserialize(stored).map_err(|error| error.to_string())?;
        Ok(Self {
            model: config.model.clone().ok_or("it names no model")?,
            system: config.system_prompt.clone().unwrap_or_default(),
            ..recipe
        })
    }

    fn wanted(&self) -> Wanted {
        Wanted {
            model: Some(self.model.clone()).filter(|model| !model.is_empty()),
            base_url: self.base_url.clone(),
            api_key_env: self.api_key_env.clone(),
        }
    }

    /// Its command lines.
    pub(crate) fn shell(&self) -> Option<&Shell> {
        self.shell.as_ref()
    }

    /// Its tools.
    pub(crate) fn tools(&self, room: Option<&Toolroom>) -> Result<Vec<Arc<dyn Tool>>, Problem> {
        if !self.tools {
            return Ok(Vec::new());
        }
        let mut tools = tool::all(&Env::system(), self.notes_dir.clone())?;
        let defect =
            |error: &dyn std::fmt::Display| Problem::new(ErrorKind::Bug, error.to_string());
        if let Some(files) = &self.files {
            tools.extend(files.tools()?);
        }
        if let Some(shell) = &self.shell {
            let nothing = || Keeps { spill: None, workspaces: None };
            let keeps = room.map_or_else(nothing, Toolroom::keeps);
            tools.extend(shell.tools(self.files.as_ref(), keeps)?);
        }
        if self.ask_user {
            tools.push(Arc::new(ask_user().map_err(|error| defect(&error))?));
        }
        if self.children {
            tools.extend(child_tools().map_err(|error| defect(&error))?);
        }
        Ok(tools)
    }

    fn agent(
        &self,
        model: Arc<dyn ChatModel>,
        (namespace, name): (&str, &str),
        room: Option<&Toolroom>,
    ) -> Result<Agent, Problem> {
        let mut limits = Limits::default();
        if let Some(turns) = self.max_turns {
            limits = limits.turns(turns);
        }
        if let Some(timeout) = self.timeout_ms {
            limits = limits.wall(Duration::from_millis(timeout));
        }
        let system = self.system.clone();
        let mut builder = Agent::builder(name, model)
            .tools(self.tools(room)?)
            .limits(limits)
            .context(Truncate::new())
            // What a person writes is text and never a template.
            .instructions_from(move |_| {
                let system = system.clone();
                async move { Ok(system) }
            });
        if let Some(room) = room {
            let wish = match (&self.declared, self.tools) {
                (None, true) => Wish::All,
                (None, false) => Wish::Named(&[]),
                (Some(names), _) => Wish::Named(names),
            };
            let has_shell = self.tools && self.shell.is_some();
            builder = room.outfit(builder, (namespace, name), (&wish, has_shell))?;
        }
        builder.build().map_err(|error: BuildError| Problem::invalid(error.to_string()))
    }

    /// An agent that was made with rules must not go on without them.
    fn check_rules(&self, room: Option<&Toolroom>) -> Result<(), String> {
        let here = room.and_then(|room| room.shop.as_ref()).map(|shop| &shop.path);
        match &self.resources {
            Some(path) if here != Some(path) => Err(format!(
                "it was made with the tools and rules of {}: go on with --resources {0}",
                path.display()
            )),
            _ => Ok(()),
        }
    }
}

/// Makes agents, and keeps the models it has opened.
pub(crate) struct Kitchen {
    pace: Duration,
    models: Mutex<HashMap<Wanted, Arc<dyn ChatModel>>>,
    house: Option<House>,
    room: OnceLock<Arc<Toolroom>>,
}

impl Kitchen {
    /// One whose demo model waits this long before each word.
    pub(crate) fn new(pace: Duration) -> Self {
        Self { pace, models: Mutex::default(), house: None, room: OnceLock::new() }
    }

    /// One that also makes agents which others have described. This model is theirs unless they name one.
    pub(crate) fn of_house(house: House) -> Self {
        let (pace, house) = (Duration::ZERO, Some(house));
        Self { pace, models: Mutex::default(), house, room: OnceLock::new() }
    }

    /// Puts every agent that is made from now on under what stands around tools. Only the first counts.
    pub(crate) fn equip(&self, room: Arc<Toolroom>) {
        self.room.set(room).ok();
    }

    fn read(&self, profile: &AgentProfile) -> Result<Recipe, String> {
        match &self.house {
            Some(house) => house.recipe(profile),
            None => Recipe::read(profile),
        }
    }

    /// Opens the model of a recipe, which says what is wrong with it before anything is stored.
    pub(crate) fn open(&self, recipe: &Recipe, choice: &Choice) -> Result<(), Problem> {
        let model = open_model(choice, self.pace)?;
        self.models().insert(recipe.wanted(), model);
        Ok(())
    }

    /// Can this process make the agent? It may lack the key.
    pub(crate) fn check(&self, profile: &AgentProfile) -> Result<(), Problem> {
        let recipe = self.read(profile).map_err(Problem::invalid)?;
        self.model(&recipe).map(drop)
    }

    /// The agent of a run.
    pub(crate) fn build(
        &self,
        profile: &AgentProfile,
        namespace: &str,
    ) -> Result<Agent, EngineError> {
        let refused = |problem: String| EngineError::Agent { agent: profile.name.clone(), problem };
        let recipe = self.read(profile).map_err(refused)?;
        let model = self.model(&recipe).map_err(|problem| refused(problem.what))?;
        let room = self.room.get().map(Arc::as_ref);
        recipe.check_rules(room).map_err(refused)?;
        let is_declared = profile.config.more.contains_key(DECLARED);
        if is_declared && !room.is_some_and(|room| room.declares(namespace, &profile.name)) {
            let problem =
                "it was declared in files that are not used here: start with --resources PATH";
            return Err(refused(problem.to_owned()));
        }
        // What a terminal made has a name that only says how it was made.
        let name = if profile.config.more.contains_key(MORE) { AGENT } else { &profile.name };
        recipe.agent(model, (namespace, name), room).map_err(|problem| refused(problem.what))
    }

    fn model(&self, recipe: &Recipe) -> Result<Arc<dyn ChatModel>, Problem> {
        let wanted = recipe.wanted();
        if let Some(model) = self.models().get(&wanted) {
            return Ok(Arc::clone(model));
        }
        let model = open_model(&choose(&wanted)?, self.pace)?;
        self.models().insert(wanted, Arc::clone(&model));
        Ok(model)
    }

    fn models(&self) -> std::sync::MutexGuard<'_, HashMap<Wanted, Arc<dyn ChatModel>>> {
        self.models.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
