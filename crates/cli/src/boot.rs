//! The composition root: the one place that names models, tools, stores and the agent together.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use provost_agent::context::Truncate;
use provost_agent::session::{FileSessions, MemorySessions, SESSION_ID_BYTES_MAX, SessionStore};
use provost_agent::{Agent, BuildError};
use provost_core::{Env, Limits};
use provost_model::{Anthropic, ChatModel, OpenAi, openai_compatible};
use provost_tool::Tool;

use crate::command::AgentArgs;
use crate::demo::DemoModel;
use crate::discover::{self, Choice, Provider, Wanted, World};
use crate::problem::Problem;
use crate::talk::{Talk, session_problem};
use crate::tool;

/// How long it may take to reach a local server.
pub(crate) const PROBE_TIMEOUT: Duration = Duration::from_millis(150);

/// What the agent is told unless somebody says otherwise.
const INSTRUCTIONS: &str = "You are a helpful assistant in a terminal. Answer briefly, in Markdown. \
     Use your tools when they help; if a call is not approved, say so and go on without it.";

/// The session of a chat that is not kept.
const SESSION_IN_MEMORY: &str = "chat";

/// Everything a command needs to talk.
pub(crate) struct Boot {
    /// The conversation.
    pub(crate) talk: Talk,
    /// The model and why it was chosen.
    pub(crate) choice: Choice,
    /// Names and descriptions of the tools.
    pub(crate) tools: Vec<(String, String)>,
}

/// Puts it all together. `pace` is how long the demo model waits before each word.
pub(crate) fn boot(args: &AgentArgs, pace: Duration) -> Result<Boot, Problem> {
    let choice = choose(&args.wanted())?;
    let model = open_model(&choice, pace)?;
    let tools =
        if args.no_tools { Vec::new() } else { tool::all(&Env::system(), args.notes_dir.clone())? };
    let described = tools.iter().map(|tool| {
        let def = tool.spec().def();
        (def.name.clone(), def.description.clone())
    });
    let described = described.collect();
    let agent = agent(args, model, tools).map_err(|error| Problem::invalid(error.to_string()))?;
    let (store, session) = sessions(args)?;
    Ok(Boot { talk: Talk::new(agent, store, session), choice, tools: described })
}

/// Decides which model to use, from the real environment.
pub(crate) fn choose(wanted: &Wanted) -> Result<Choice, Problem> {
    let env = |name: &str| std::env::var(name).ok();
    let ollama = |address: &discover::Address| discover::ollama_models(address, PROBE_TIMEOUT);
    let world = World { env: &env, ollama: &ollama };
    discover::discover(wanted, &world)
}

/// The model of a decision.
pub(crate) fn open_model(choice: &Choice, pace: Duration) -> Result<Arc<dyn ChatModel>, Problem> {
    let refused = |error: provost_model::BuildError| Problem::new(error.kind(), error.to_string());
    let model = match choice.provider {
        Provider::Demo => return Ok(Arc::new(DemoModel::new(pace))),
        Provider::Anthropic => {
            let mut builder = Anthropic::builder(&choice.model);
            if let Some(url) = &choice.base_url {
                builder = builder.base_url(url);
            }
            if let Some(key) = &choice.key {
                builder = builder.api_key(key.clone());
            }
            builder.build()
        }
        Provider::OpenAi | Provider::Ollama | Provider::Compatible => {
            let mut builder = match (choice.provider, &choice.base_url) {
                (Provider::OpenAi, None) => OpenAi::builder(&choice.model),
                (Provider::OpenAi, Some(url)) => OpenAi::builder(&choice.model).base_url(url),
                (provider, url) => {
                    let url = url.as_deref().unwrap_or_default();
                    openai_compatible(provider.as_str(), url, &choice.model)
                }
            };
            if let Some(key) = &choice.key {
                builder = builder.api_key(key.clone());
            }
            builder.build()
        }
    };
    Ok(Arc::new(model.map_err(refused)?))
}

fn agent(
    args: &AgentArgs,
    model: Arc<dyn ChatModel>,
    tools: Vec<Arc<dyn Tool>>,
) -> Result<Agent, BuildError> {
    let mut limits = Limits::default();
    if let Some(turns) = args.max_turns {
        limits = limits.turns(turns);
    }
    if let Some(timeout) = args.timeout {
        limits = limits.wall(timeout);
    }
    let builder =
        Agent::builder("provost", model).tools(tools).limits(limits).context(Truncate::new());
    match args.system.clone() {
        // What a person writes is text and never a template.
        Some(system) => builder.instructions_from(move |_| {
            let system = system.clone();
            async move { Ok(system) }
        }),
        None => builder.instructions(INSTRUCTIONS),
    }
    .build()
}

fn sessions(args: &AgentArgs) -> Result<(Arc<dyn SessionStore>, String), Problem> {
    let Some(name) = &args.session else {
        let store = Arc::new(MemorySessions::new());
        return Ok((store, SESSION_IN_MEMORY.to_owned()));
    };
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
    let dir = data_dir(|name| std::env::var(name).ok())?.join("sessions");
    let store = FileSessions::open(dir).map_err(|error| session_problem(&error))?;
    Ok((Arc::new(store), name.clone()))
}

/// Where the program keeps what belongs to the user.
pub(crate) fn data_dir(env: impl Fn(&str) -> Option<String>) -> Result<PathBuf, Problem> {
    let absolute = |name: &str| env(name).map(PathBuf::from).filter(|path| path.is_absolute());
    if let Some(data) = absolute("XDG_DATA_HOME") {
        return Ok(data.join("provost"));
    }
    let home = absolute("HOME").or_else(|| absolute("USERPROFILE"));
    match home {
        Some(home) => Ok(home.join(Path::new(".local/share/provost"))),
        None => Err(Problem::invalid("there is no directory for data")
            .help("set XDG_DATA_HOME or HOME to an absolute path")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_directory_follows_the_environment() {
        let dir = |pairs: &'static [(&str, &str)]| {
            data_dir(|name| {
                let found = pairs.iter().find(|(key, _)| *key == name);
                found.map(|(_, value)| (*value).to_owned())
            })
        };
        let xdg = dir(&[("XDG_DATA_HOME", "/x"), ("HOME", "/h")]).unwrap();
        assert_eq!(xdg, Path::new("/x/provost"));
        let home = dir(&[("XDG_DATA_HOME", "relative"), ("HOME", "/h")]).unwrap();
        assert_eq!(home, Path::new("/h/.local/share/provost"));
        assert!(dir(&[]).unwrap_err().help.is_some());
    }
}
