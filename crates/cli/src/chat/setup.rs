//! Opens a chat with a local agent of this process or with an agent of a server.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use provost_api::{Client, NewAgent, PageQuery};
use provost_core::ErrorKind;
use provost_core::id::name::Namespace;
use provost_core::resource::{ALL_TOOLS, AgentSpec, ModelEndpoint};
use provost_host::agent::{HostDefaults, Workspaces, terminal_agent_name};
use provost_host::model::{self, ModelChoice, ModelRequest, Models};
use provost_host::tool::ToolConfig;
use provost_session::SESSION_ID_BYTES_MAX;

use super::conversation::Conversation;
use crate::args::{AgentArgs, ChatArgs};
use crate::boot::{self, Config, DEFAULT_AGENT, Runtime};
use crate::data;
use crate::error::CliError;
use crate::model_catalog::user_catalog;

/// Plan of a chat that is not open yet.
pub(crate) struct ChatPlan {
    session: Option<String>,
    host: Host,
}

/// Process that executes the agent.
enum Host {
    Local(Box<LocalPlan>),
    Server { client: Client, agent: Option<String> },
}

/// Plan of a local agent.
struct LocalPlan {
    choice: ModelChoice,
    agent: LocalAgent,
    defaults: HostDefaults,
    dir: PathBuf,
    namespace: Namespace,
    tools: ToolConfig,
}

/// Open chat.
pub(crate) struct Chat {
    /// Conversation of the chat.
    pub(crate) conversation: Conversation,
    /// Agent of the chat.
    pub(crate) agent: ChatAgent,
    /// Name of the model, or of the agent of the server.
    pub(crate) name: String,
    /// Reason why this model or agent was selected.
    pub(crate) reason: String,
    /// Names and descriptions of the tools.
    pub(crate) tools: Vec<(String, String)>,
    /// Runtime that executes the runs. `None` if a server executes them.
    runtime: Option<Runtime>,
}

/// Agent of a chat.
pub(crate) enum ChatAgent {
    /// Agent of this process.
    Local(Box<LocalAgent>),
    /// Agent of a server, which holds its configuration.
    Server,
}

/// Agent of this process.
pub(crate) struct LocalAgent {
    spec: AgentSpec,
    models: Arc<Models>,
    /// Model that the command line requested.
    request: ModelRequest,
}

impl ChatPlan {
    /// Creates a plan from the arguments. `demo_token_delay` is the delay of the demo model before each word.
    pub(crate) fn new(
        args: &ChatArgs,
        data: Option<&Path>,
        demo_token_delay: Duration,
        is_interactive: bool,
    ) -> Result<Self, CliError> {
        let session = args.agent.session.as_deref().map(session_name).transpose()?;
        let host = match args.server.connect()? {
            Some(client) => {
                if args.agent.defines_agent() {
                    let message = "the model, the prompt and the tools of this agent are configured on the server";
                    let hint = "remove the flags of the agent and select an agent with --agent, or remove the server to \
                         run the agent in this process";
                    return Err(CliError::invalid(message).hint(hint));
                }
                Host::Server { client, agent: args.name.clone() }
            }
            None if args.name.is_some() => {
                let message = "--agent selects an agent of a server, and no server is selected";
                return Err(CliError::invalid(message).hint("select a server with --server"));
            }
            None => {
                let namespace = args.server.namespace()?;
                let plan =
                    LocalPlan::new(&args.agent, data, namespace, demo_token_delay, is_interactive)?;
                Host::Local(Box::new(plan))
            }
        };
        Ok(Self { session, host })
    }

    /// Uses the session with this name if the arguments name none.
    #[must_use]
    pub(crate) fn session_or(mut self, name: &str) -> Self {
        self.session.get_or_insert_with(|| name.to_owned());
        self
    }

    /// Returns the model or the agent, and the reason why it was selected.
    pub(crate) fn description(&self) -> String {
        match &self.host {
            Host::Local(local) => format!("{}: {}", local.choice.name(), local.choice.reason),
            Host::Server { agent, .. } => format!("{}: {ON_SERVER}", agent_name(agent.as_ref())),
        }
    }

    /// Opens the session. A local worker then continues unfinished runs of the session.
    pub(crate) async fn open(self) -> Result<Chat, CliError> {
        let session = self.session.as_deref();
        match self.host {
            Host::Local(local) => local.open(session).await,
            Host::Server { client, agent } => open_on_server(client, agent, session).await,
        }
    }
}

/// Reason why an agent of a server answers.
const ON_SERVER: &str = "an agent of the server";

fn agent_name(agent: Option<&String>) -> &str {
    agent.map_or(DEFAULT_AGENT, String::as_str)
}

async fn open_on_server(
    client: Client,
    agent: Option<String>,
    session: Option<&str>,
) -> Result<Chat, CliError> {
    let name = agent_name(agent.as_ref()).to_owned();
    let found = client.agent(&name).await?;
    let declared = client.tools(&PageQuery::default()).await?.items;
    let used = |tool: &str| {
        let names = &found.config.declared_tools;
        names.iter().any(|name| name == ALL_TOOLS || name.eq_ignore_ascii_case(tool))
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
        demo_token_delay: Duration,
        is_interactive: bool,
    ) -> Result<Self, CliError> {
        let request = args.model_request();
        let choice = model::select_model(&request)?;
        let spec = with_model(args.spec(is_interactive)?, &choice, request.api_key_env.clone());
        let models = Arc::new(Models::new(demo_token_delay, user_catalog()?));
        models.open(ModelRequest::of_spec(&spec), &choice)?;
        let shell = args.shell.shell()?;
        let notes_dir = std::path::absolute(&args.notes_dir)
            .map_err(|error| CliError::io("the notes directory", &error))?;
        let defaults = HostDefaults {
            model: request.clone(),
            notes_dir,
            workspaces: Workspaces::new(args.files()?),
            shell: shell.clone(),
            is_terminal: true,
        };
        let tools = args.tools.config(shell)?;
        let agent = LocalAgent { spec, models, request };
        Ok(Self { choice, agent, defaults, dir: data::dir_from_env(data)?, namespace, tools })
    }

    async fn open(self, session: Option<&str>) -> Result<Chat, CliError> {
        let Self { choice, mut agent, defaults, dir, namespace, tools } = self;
        let config = Config { tools, ..Config::local(&dir, Arc::clone(&agent.models), defaults) };
        let mut runtime = boot::build(config).await?;
        agent.spec.resource_set = runtime.manifests().store_own().await?;
        let client = runtime.client(namespace);
        let local = Some(runtime.local_runs());
        let mut conversation = Conversation::open(client, local, session).await?;
        let described = runtime.builtin_tools(&agent.spec)?.into_iter().map(|tool| {
            let def = tool.spec().def();
            (def.name.clone(), def.description.clone())
        });
        let tools = described.chain(runtime.tools.descriptions()).collect();
        let (stored, started) = tokio::join!(agent.store(conversation.client()), runtime.start());
        conversation.set_agent(Some(stored?));
        started?;
        let (name, reason) = (choice.name(), choice.reason);
        let agent = ChatAgent::Local(Box::new(agent));
        Ok(Chat { conversation, agent, name, reason, tools, runtime: Some(runtime) })
    }
}

impl LocalAgent {
    /// Stores the agent and returns its name. The name is a hash of the definition, so an existing agent is identical.
    async fn store(&self, client: &Client) -> Result<String, CliError> {
        let name = terminal_agent_name(&self.spec)?;
        let (title, config) = (self.spec.model.clone(), self.spec.clone());
        let agent = NewAgent { name: name.clone(), title, config };
        match client.create_agent(&agent).await {
            Err(error) if error.kind() != ErrorKind::Conflict => Err(error.into()),
            _ => Ok(name),
        }
    }
}

impl ChatAgent {
    /// Switches to another model and returns its name.
    pub(crate) async fn switch_model(
        &mut self,
        conversation: &mut Conversation,
        name: &str,
    ) -> Result<String, CliError> {
        let Self::Local(agent) = self else {
            let message = "the model of this agent is configured on the server";
            return Err(CliError::invalid(message).hint("change it with `provost agent update`"));
        };
        let request = agent.request.with_model(name);
        let choice = model::select_model(&request)?;
        let spec = with_model(agent.spec.clone(), &choice, request.api_key_env);
        agent.models.open(ModelRequest::of_spec(&spec), &choice)?;
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
    /// Closes the chat. Runs of this process get this time to finish; unfinished runs are requeued.
    pub(crate) async fn close(self, timeout: Duration) {
        if let Some(runtime) = self.runtime {
            runtime.close(timeout).await;
        }
    }
}

/// Returns the definition with another model.
fn with_model(spec: AgentSpec, choice: &ModelChoice, api_key_env: Option<String>) -> AgentSpec {
    let endpoint = ModelEndpoint { base_url: choice.base_url.clone(), api_key_env };
    let endpoint = Some(endpoint).filter(|endpoint| *endpoint != ModelEndpoint::default());
    AgentSpec { model: Some(choice.full_name()), endpoint, ..spec }
}

/// Validates the name of a session.
fn session_name(name: &str) -> Result<String, CliError> {
    if name.trim().is_empty() {
        let problem = CliError::invalid("--session needs a name");
        return Err(problem.hint("use --session NAME, or omit the flag"));
    }
    if name.len() > SESSION_ID_BYTES_MAX {
        let message = format!(
            "the name of the session has {} bytes, the limit is {SESSION_ID_BYTES_MAX}",
            name.len()
        );
        return Err(CliError::invalid(message).hint("use a shorter name with --session"));
    }
    Ok(name.to_owned())
}
