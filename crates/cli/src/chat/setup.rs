//! Who takes part in a conversation: an agent of this terminal that runs in this process, or an agent of a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use provost_api::{Client, NewAgent, Paging};
use provost_core::ErrorKind;
use provost_core::id::name::Namespace;
use provost_host::agent::AgentSpec;
use provost_host::model::{self, Choice, ModelRequest, Models};
use provost_host::tool::ToolConfig;
use provost_session::SESSION_ID_BYTES_MAX;

use super::conversation::Conversation;
use crate::args::{AgentArgs, ChatArgs};
use crate::boot::{self, Config, DEFAULT_AGENT, Runtime};
use crate::data;
use crate::model_catalog::user_catalog;
use crate::problem::Problem;

/// How to open a chat. Nothing is opened or stored yet.
pub(crate) struct ChatPlan {
    session: Option<String>,
    host: Host,
}

/// Where the agent runs.
enum Host {
    Local(Box<LocalPlan>),
    Server { client: Client, agent: Option<String> },
}

/// An agent in this process.
struct LocalPlan {
    choice: Choice,
    agent: LocalAgent,
    dir: PathBuf,
    namespace: Namespace,
    tools: ToolConfig,
}

/// An open chat.
pub(crate) struct Chat {
    /// The conversation.
    pub(crate) conversation: Conversation,
    /// The agent.
    pub(crate) agent: ChatAgent,
    /// The model or the agent that answers.
    pub(crate) name: String,
    /// Why it answers.
    pub(crate) reason: String,
    /// Names and descriptions of the tools.
    pub(crate) tools: Vec<(String, String)>,
    /// Executes the runs and holds the database open, unless a server does.
    runtime: Option<Runtime>,
}

/// The agent of a chat.
pub(crate) enum ChatAgent {
    /// An agent of this terminal.
    Local(Box<LocalAgent>),
    /// An agent of a server, where it is configured.
    Server,
}

/// An agent of this terminal.
pub(crate) struct LocalAgent {
    spec: AgentSpec,
    models: Arc<Models>,
    /// What the command line asked for about the model.
    wanted: ModelRequest,
}

impl ChatPlan {
    /// Reads the arguments. `pace` is how long the demo model waits before each word.
    pub(crate) fn new(
        args: &ChatArgs,
        data: Option<&Path>,
        pace: Duration,
        is_interactive: bool,
    ) -> Result<Self, Problem> {
        let session = args.agent.session.as_deref().map(session_name).transpose()?;
        let host = match args.server.connect()? {
            Some(client) => {
                if args.agent.describes_agent() {
                    let what = "the model, the instructions and the tools of this agent are set on the server";
                    let help = "leave out the flags of the agent and name one with --agent, or leave out the server \
                         to run the agent here";
                    return Err(Problem::invalid(what).help(help));
                }
                Host::Server { client, agent: args.name.clone() }
            }
            None if args.name.is_some() => {
                let what = "--agent names an agent of a server, and there is no server";
                return Err(Problem::invalid(what).help("name the server with --server"));
            }
            None => {
                let namespace = args.server.namespace()?;
                let plan = LocalPlan::new(&args.agent, data, namespace, pace, is_interactive)?;
                Host::Local(Box::new(plan))
            }
        };
        Ok(Self { session, host })
    }

    /// Uses the session with this name unless another one is asked for.
    #[must_use]
    pub(crate) fn session_or(mut self, name: &str) -> Self {
        self.session.get_or_insert_with(|| name.to_owned());
        self
    }

    /// The model or the agent that answers, and why.
    pub(crate) fn description(&self) -> String {
        match &self.host {
            Host::Local(local) => format!("{}: {}", local.choice.name(), local.choice.why),
            Host::Server { agent, .. } => format!("{}: {ON_SERVER}", agent_name(agent.as_ref())),
        }
    }

    /// Opens the session. In this process a worker starts, which takes up what a dead terminal left there.
    pub(crate) async fn open(self) -> Result<Chat, Problem> {
        let session = self.session.as_deref();
        match self.host {
            Host::Local(local) => local.open(session).await,
            Host::Server { client, agent } => open_on_server(client, agent, session).await,
        }
    }
}

/// Where an agent of a server comes from.
const ON_SERVER: &str = "an agent of the server";

fn agent_name(agent: Option<&String>) -> &str {
    agent.map_or(DEFAULT_AGENT, String::as_str)
}

async fn open_on_server(
    client: Client,
    agent: Option<String>,
    session: Option<&str>,
) -> Result<Chat, Problem> {
    let name = agent_name(agent.as_ref()).to_owned();
    let found = client.agent(&name).await?;
    let declared = client.tools(&Paging::default()).await?.items;
    let used = |tool: &str| {
        let names = found.config.more.get("declared_tools").and_then(|names| names.as_array());
        names.is_some_and(|names| names.iter().any(|name| name == tool))
    };
    let tools = declared.into_iter().filter(|tool| used(&tool.name));
    let tools = tools.map(|tool| (tool.name, tool.description)).collect();
    let mut conversation = Conversation::open(client, None, session).await?;
    conversation.set_agent(agent);
    let (agent, reason) = (ChatAgent::Server, ON_SERVER.to_owned());
    Ok(Chat { conversation, agent, name, reason, tools, runtime: None })
}

impl LocalPlan {
    fn new(
        args: &AgentArgs,
        data: Option<&Path>,
        namespace: Namespace,
        pace: Duration,
        is_interactive: bool,
    ) -> Result<Self, Problem> {
        let wanted = args.model_request();
        let choice = model::choose(&wanted)?;
        let spec = AgentSpec::new(args.options(is_interactive)?, &choice)?;
        let models = Arc::new(Models::new(pace, user_catalog()?));
        models.open(spec.model_request(), &choice)?;
        let tools = args.tools.config(args.role.clone(), spec.shell().cloned())?;
        let agent = LocalAgent { spec, models, wanted };
        Ok(Self { choice, agent, dir: data::real_dir(data)?, namespace, tools })
    }

    async fn open(self, session: Option<&str>) -> Result<Chat, Problem> {
        let Self { choice, agent, dir, namespace, tools } = self;
        let config = Config { tools, ..Config::local(&dir, Arc::clone(&agent.models)) };
        let mut runtime = boot::build(config).await?;
        let client = runtime.client(namespace);
        let local = Some(runtime.local_runs());
        let mut conversation = Conversation::open(client, local, session).await?;
        let described = agent.spec.tools(&runtime.tools)?.into_iter().map(|tool| {
            let def = tool.spec().def();
            (def.name.clone(), def.description.clone())
        });
        let tools = described.chain(runtime.tools.described()).collect();
        let (stored, started) = tokio::join!(agent.store(conversation.client()), runtime.start());
        conversation.set_agent(Some(stored?));
        started?;
        let (name, reason) = (choice.name(), choice.why);
        let agent = ChatAgent::Local(Box::new(agent));
        Ok(Chat { conversation, agent, name, reason, tools, runtime: Some(runtime) })
    }
}

impl LocalAgent {
    /// Stores the agent and returns its name. The name says how the agent is made, so one that is there is the same.
    async fn store(&self, client: &Client) -> Result<String, Problem> {
        let defect = |error: serde_json::Error| Problem::new(ErrorKind::Bug, error.to_string());
        let config = self.spec.config()?;
        let name = AgentSpec::name(&config)?;
        let config = serde_json::to_value(&config).and_then(serde_json::from_value);
        let title = Some(self.spec.model.clone());
        let agent = NewAgent { name: name.clone(), title, config: config.map_err(defect)? };
        match client.create_agent(&agent).await {
            Err(error) if error.kind() != ErrorKind::Conflict => Err(error.into()),
            _ => Ok(name),
        }
    }
}

impl ChatAgent {
    /// Makes another model answer from now on, and returns its name.
    pub(crate) async fn switch_model(
        &mut self,
        conversation: &mut Conversation,
        name: &str,
    ) -> Result<String, Problem> {
        let Self::Local(agent) = self else {
            let what = "the model of this agent is set on the server";
            return Err(Problem::invalid(what).help("set it with `provost agent update`"));
        };
        let wanted = agent.wanted.with_model(name);
        let choice = model::choose(&wanted)?;
        let spec = agent.spec.clone().with_model(&choice, wanted.api_key_env);
        agent.models.open(spec.model_request(), &choice)?;
        let before = std::mem::replace(&mut agent.spec, spec);
        match agent.store(conversation.client()).await {
            Ok(stored) => {
                conversation.set_agent(Some(stored));
                Ok(choice.name())
            }
            Err(problem) => {
                agent.spec = before;
                Err(problem)
            }
        }
    }
}

impl Chat {
    /// Closes it. Runs in this process get this time to finish; unfinished ones are given back.
    pub(crate) async fn close(self, timeout: Duration) {
        if let Some(runtime) = self.runtime {
            runtime.close(timeout).await;
        }
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
