//! Makes tools of what was declared.

use std::collections::BTreeMap;
use std::sync::Arc;

use provost_core::Env;
use provost_core::contract::ToolContractError;
use provost_core::resource::{
    ALL_TOOLS, AgentResource, AuthProfile, IsolationMode, McpServerResource, McpTransport,
    ToolResource,
};
use provost_mcp::launcher::Starter;
use provost_mcp::{McpPool, McpTools};
use provost_net::{NetClient, NetPolicy};
use provost_redact::Redactor;
use provost_resource::{At, DeclareError, Declared, Place};
use provost_sandbox::{ContainerOptions, Launcher};
use provost_secret::{SecretRef, Secrets};
use provost_tool::{
    AuditSink, Authenticator, GovernedTool, RegistryError, Runtimes, Tool, ToolHost, ToolRuntime,
    Toolset,
};
use provost_tool_runtime::{
    A2aRuntime, AuthInjector, CallbackDesk, CommandAllowList, ExternalRuntime, HttpRuntime,
    McpRuntime, Outbound, Program, WebhookOptions, WebhookRuntime,
};
use provost_workspace::conversation::Workspaces;

use crate::module::{ModulePlaces, Modules};
use crate::program::{Means, Programs, Sandboxes};

/// What a workshop needs.
pub struct WorkshopOptions {
    /// Where tools may be.
    pub network: NetPolicy,
    /// True if tools and servers that ask for it may be in the private network.
    pub allow_private_tools: bool,
    /// Which programs may be started.
    pub commands: CommandAllowList,
    /// How declared programs get into a sandbox; without one they have no network at all.
    pub launcher: Option<Launcher>,
    /// Where modules of `wasm` tools are.
    pub modules: ModulePlaces,
    /// How containers are run; without this there are none.
    pub container: Option<ContainerOptions>,
    /// Where the files of conversations are; without it no tool works on them.
    pub workspaces: Option<Workspaces>,
    /// Who is told of every attempt of a sandboxed program to reach somebody.
    pub audit: Option<Arc<dyn AuditSink>>,
    /// Where answers that come later are handed in.
    pub desk: Option<CallbackDesk>,
    /// Where secrets are found.
    pub secrets: Secrets,
    /// What is never shown; the secrets teach it too.
    pub redactor: Redactor,
    /// Time and chance.
    pub env: Env,
}

/// Makes tools of what was declared, and keeps what they need: runtimes, connections, credentials.
pub struct Workshop {
    declared: Arc<Declared>,
    host: ToolHost,
    pool: McpPool,
    mcp: Arc<McpRuntime>,
    tools: BTreeMap<(String, String), Arc<GovernedTool>>,
}

impl Workshop {
    /// Sets up every tool and every server. Nothing is called and nothing is started; secrets that servers get are looked up.
    pub async fn open(
        declared: Arc<Declared>,
        options: WorkshopOptions,
    ) -> Result<Self, DeclareError> {
        let WorkshopOptions {
            network,
            allow_private_tools,
            commands,
            launcher,
            modules,
            container,
            workspaces,
            audit,
            desk,
            secrets,
            redactor,
            env,
        } = options;
        let pool = McpPool::new().redactor(redactor);
        let client = NetClient::new(network);
        let authenticator: Arc<dyn Authenticator> =
            Arc::new(AuthInjector::new(secrets.clone(), client, env.clone()));
        let mut mcp = McpRuntime::new(pool.clone(), commands.clone());
        let watch = audit.clone();
        let means = Means { launcher, container, network, audit: watch, env: env.clone() };
        let sandboxes = Sandboxes::find(&declared, means).await;
        let setting =
            Setting { secrets: &secrets, sandboxes: &sandboxes, network, allow_private_tools };
        for (namespace, At { place, what }) in declared.all_servers() {
            setting.add(&mut mcp, namespace, what, place).await?;
        }
        let outbound = Outbound::new(network).allow_private_tools(allow_private_tools);
        let unusable =
            |error| DeclareError::unusable(&Place::default(), "the runtimes".to_owned(), error);
        let mut runtimes = runtimes(&outbound, &mcp, desk).map_err(unusable)?;
        Modules { places: modules, network, allow_private_tools, audit, env: &env }
            .add(&mut runtimes, &declared)?;
        let programs = Programs { sandboxes: &sandboxes, commands: &commands, workspaces };
        programs.add(&mut runtimes, &declared).map_err(unusable)?;
        let host = ToolHost { runtimes: Arc::new(runtimes), authenticator, env };
        let mut tools = BTreeMap::new();
        for (namespace, At { place, what }) in declared.all_tools() {
            let named = || format!("tool `{}`", what.name);
            let resource = with_server(&declared, namespace, what.clone());
            let tool = GovernedTool::new(resource, namespace, host.clone())
                .map_err(|error| DeclareError::unusable(place, named(), error))?;
            // What this program cannot run is refused when it is called; what nobody could run is refused now.
            if host.runtimes.select(tool.resource()).is_ok() {
                tool.verify().map_err(|fault| DeclareError::fault(place, named(), &fault))?;
            }
            tools.insert((namespace.to_owned(), what.name.trim().to_lowercase()), Arc::new(tool));
        }
        Ok(Self { declared, host, pool, mcp: Arc::new(mcp), tools })
    }

    /// What was declared.
    pub fn declared(&self) -> &Arc<Declared> {
        &self.declared
    }

    /// What can run tools here.
    pub fn runtimes(&self) -> &Runtimes {
        &self.host.runtimes
    }

    /// What proves who calls.
    pub fn authenticator(&self) -> &Arc<dyn Authenticator> {
        &self.host.authenticator
    }

    /// A tool of a namespace.
    pub fn tool(&self, namespace: &str, name: &str) -> Option<&Arc<GovernedTool>> {
        self.tools.get(&(namespace.to_owned(), name.to_lowercase()))
    }

    /// The tools of a namespace.
    pub fn tools(&self, namespace: &str) -> Vec<Arc<GovernedTool>> {
        let of_it = self.tools.iter().filter(|((other, _), _)| other == namespace);
        of_it.map(|(_, tool)| Arc::clone(tool)).collect()
    }

    /// The tools of an MCP server.
    pub fn server(&self, namespace: &str, name: &str) -> Option<McpTools> {
        let server = self.declared.server(namespace, name)?;
        self.mcp.toolset(namespace, &server.name)
    }

    /// The declared tools of a declared agent.
    pub fn tools_of(&self, agent: &AgentResource) -> Vec<Arc<dyn Tool>> {
        let all = self.tools(&agent.namespace).into_iter();
        let every = agent.tools.iter().any(|name| name == ALL_TOOLS);
        let named = |tool: &Arc<GovernedTool>| {
            every || agent.tools.iter().any(|name| name.eq_ignore_ascii_case(tool.spec().name()))
        };
        all.filter(named).map(|tool| tool as Arc<dyn Tool>).collect()
    }

    /// The servers of a declared agent.
    pub fn toolsets_of(&self, agent: &AgentResource) -> Vec<Arc<dyn Toolset>> {
        let found = agent.mcp_servers.iter().filter_map(|name| self.server(&agent.namespace, name));
        found.map(|tools| Arc::new(tools) as Arc<dyn Toolset>).collect()
    }

    /// Ends connections and programs.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// Names are found without regard to case; the runtime knows a server by the name that it was declared with.
fn with_server(declared: &Declared, namespace: &str, mut tool: ToolResource) -> ToolResource {
    if let Some(reference) = &mut tool.mcp
        && let Some(server) = declared.server(namespace, &reference.server)
    {
        reference.server.clone_from(&server.name);
    }
    tool
}

fn runtimes(
    outbound: &Outbound,
    mcp: &McpRuntime,
    desk: Option<CallbackDesk>,
) -> Result<Runtimes, RegistryError> {
    let mut runtimes = Runtimes::default();
    let webhook = WebhookOptions { desk, ..WebhookOptions::default() };
    let all: [Arc<dyn ToolRuntime>; 5] = [
        Arc::new(HttpRuntime::new(outbound.clone())),
        Arc::new(ExternalRuntime::new(outbound.clone())),
        Arc::new(WebhookRuntime::new(outbound.clone(), webhook)),
        Arc::new(A2aRuntime::new(outbound.clone())),
        Arc::new(mcp.clone()),
    ];
    for runtime in all {
        runtimes.add(runtime)?;
    }
    #[cfg(feature = "grpc")]
    runtimes.add(Arc::new(provost_tool_runtime::GrpcRuntime::new(outbound.clone())))?;
    Ok(runtimes)
}

/// What servers are set up with.
struct Setting<'a> {
    secrets: &'a Secrets,
    sandboxes: &'a Sandboxes,
    network: NetPolicy,
    allow_private_tools: bool,
}

impl Setting<'_> {
    /// Who starts the program of a server that demands isolation.
    fn starter(
        &self,
        namespace: &str,
        server: &McpServerResource,
    ) -> Result<Option<Arc<dyn Starter>>, ToolContractError> {
        let Some(demanded) = &server.isolation else { return Ok(None) };
        let mode = match demanded.mode {
            IsolationMode::None => return Ok(None),
            IsolationMode::Sandboxed => self.sandboxes.usual(),
            other => other,
        };
        self.sandboxes.sandbox(mode).starter(namespace, &server.name, demanded).map(Some)
    }

    async fn add(
        &self,
        mcp: &mut McpRuntime,
        namespace: &str,
        server: &McpServerResource,
        place: &Place,
    ) -> Result<(), DeclareError> {
        let what = || format!("MCP server `{}`", server.name);
        let only = server.tool_filter.include.clone();
        let added = match server.transport {
            McpTransport::Stdio => {
                let mut program = Program::new(&server.command);
                program.args.clone_from(&server.args);
                for variable in &server.env {
                    let value = match (&variable.value, &variable.secret_ref) {
                        (Some(value), _) => value.clone().into(),
                        (None, reference) => self
                            .secret(namespace, reference.as_deref().unwrap_or_default())
                            .await
                            .map_err(|problem| DeclareError::unusable(place, what(), problem))?,
                    };
                    program.env.push((variable.name.clone(), value));
                }
                program.starter = self
                    .starter(namespace, server)
                    .map_err(|fault| DeclareError::fault(place, what(), &fault))?;
                mcp.add_program_with(namespace, &server.name, program, |made| made.only(only))
            }
            McpTransport::Http => {
                let header = match &server.auth {
                    None => None,
                    Some(auth) => {
                        let value = self
                            .secret(namespace, &auth.secret_ref)
                            .await
                            .map_err(|problem| DeclareError::unusable(place, what(), problem))?;
                        let value = value.expose();
                        Some(match auth.profile {
                            AuthProfile::Bearer => {
                                ("authorization".to_owned(), format!("Bearer {value}"))
                            }
                            AuthProfile::ApiKeyHeader => (auth.header_name.clone(), value.clone()),
                            AuthProfile::Basic | AuthProfile::Oauth2ClientCredentials => {
                                let problem =
                                    "it can be authenticated by `bearer` and by `api_key_header`";
                                return Err(DeclareError::unusable(place, what(), problem));
                            }
                        })
                    }
                };
                let network = NetPolicy {
                    allow_private: self.network.allow_private
                        || (self.allow_private_tools && server.allow_private),
                    ..self.network
                };
                mcp.add_address(namespace, &server.name, &server.endpoint, |made| {
                    let made = made.network(network).only(only);
                    match header {
                        Some((name, value)) => made.header(name, value),
                        None => made,
                    }
                })
            }
        };
        added.map_err(|fault: ToolContractError| DeclareError::fault(place, what(), &fault))
    }

    async fn secret(
        &self,
        namespace: &str,
        reference: &str,
    ) -> Result<provost_core::Secret<String>, String> {
        let reference: SecretRef =
            reference.parse().map_err(|error: provost_secret::SecretError| error.to_string())?;
        self.secrets.get(namespace, &reference).await.map_err(|error| error.to_string())
    }
}
