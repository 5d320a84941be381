//! Builds the tools and MCP servers of a set of manifests.

use std::collections::BTreeMap;
use std::sync::Arc;

use provost_core::Env;
use provost_core::contract::ToolContractError;
use provost_core::resource::{
    ALL_TOOLS, AuthProfile, IsolationMode, McpServerResource, McpTransport, ToolResource,
};
use provost_mcp::launcher::ProcessLauncher;
use provost_mcp::{McpPool, McpToolset};
use provost_net::{NetClient, NetPolicy};
use provost_redact::Redactor;
use provost_resource::{Located, ManifestError, ResourceSet, SourceLocation};
use provost_sandbox::{ContainerOptions, Launcher};
use provost_secret::{SecretRef, SecretService};
use provost_tool::{
    AuditSink, CredentialProvider, DeclaredTool, RegistryError, RuntimeRegistry, RuntimeServices,
    Tool, ToolRuntime,
};
use provost_tool_runtime::{
    A2aRuntime, AuthInjector, CallbackOptions, CallbackRegistry, CallbackRuntime, CommandAllowList,
    ExternalRuntime, HttpRuntime, McpRuntime, StdioServer, ToolHttpClient,
};
use provost_workspace::conversation::ConversationWorkspaces;

use crate::sandbox::{ProgramRuntimes, SandboxOptions, Sandboxes};
use crate::wasm::{ModuleDirs, WasmRuntimeBuilder};

/// Options of a tool registry.
pub struct ToolRegistryOptions {
    /// Network policy of the tools.
    pub network: NetPolicy,
    /// True if tools and servers that declare `allow_private` can reach private networks.
    pub allow_private_tools: bool,
    /// Programs that tools and servers can start.
    pub commands: CommandAllowList,
    /// Launcher of sandboxed programs. Without it, the programs have no network.
    pub launcher: Option<Launcher>,
    /// Directories of the modules of `wasm` tools.
    pub modules: ModuleDirs,
    /// Container options. `None` if programs do not run in containers.
    pub container: Option<ContainerOptions>,
    /// Workspaces of sessions. `None` if no tool uses them.
    pub workspaces: Option<ConversationWorkspaces>,
    /// Sink of audit records about egress attempts.
    pub audit: Option<Arc<dyn AuditSink>>,
    /// Registry of calls whose results are delivered later.
    pub callbacks: Option<CallbackRegistry>,
    /// Secrets of tools and servers.
    pub secrets: SecretService,
    /// Redactor of known secrets, including the secrets that the tools use.
    pub redactor: Redactor,
    /// Clock and random numbers.
    pub env: Env,
}

/// Tools of a set of manifests, with their runtimes, connections and credentials.
pub struct ToolRegistry {
    declared: Arc<ResourceSet>,
    host: RuntimeServices,
    pool: McpPool,
    mcp: Arc<McpRuntime>,
    tools: BTreeMap<(String, String), Arc<DeclaredTool>>,
}

impl ToolRegistry {
    /// Builds every declared tool and MCP server. Resolves the secrets of servers, but calls no tool and starts no
    /// server. Returns an error if a tool or server cannot be built.
    pub async fn open(
        declared: Arc<ResourceSet>,
        options: ToolRegistryOptions,
    ) -> Result<Self, ManifestError> {
        let ToolRegistryOptions {
            network,
            allow_private_tools,
            commands,
            launcher,
            modules,
            container,
            workspaces,
            audit,
            callbacks,
            secrets,
            redactor,
            env,
        } = options;
        let pool = McpPool::new().redactor(redactor);
        let client = NetClient::new(network);
        let authenticator: Arc<dyn CredentialProvider> =
            Arc::new(AuthInjector::new(secrets.clone(), client, env.clone()));
        let mut mcp = McpRuntime::new(pool.clone(), commands.clone());
        let sandbox_options =
            SandboxOptions { launcher, container, network, audit: audit.clone(), env: env.clone() };
        let sandboxes = Sandboxes::probe(&declared, sandbox_options).await;
        let builder = McpServerBuilder {
            secrets: &secrets,
            sandboxes: &sandboxes,
            network,
            allow_private_tools,
        };
        for (namespace, Located { location: place, resource: what }) in declared.all_servers() {
            builder.add(&mut mcp, namespace, what, place).await?;
        }
        let outbound = ToolHttpClient::new(network).allow_private_tools(allow_private_tools);
        let unusable = |error| {
            ManifestError::cannot_build(
                &SourceLocation::default(),
                "the runtimes".to_owned(),
                error,
            )
        };
        let mut runtimes = runtimes(&outbound, &mcp, callbacks).map_err(unusable)?;
        WasmRuntimeBuilder { dirs: modules, network, allow_private_tools, audit, env: &env }
            .add(&mut runtimes, &declared)?;
        let programs = ProgramRuntimes { sandboxes: &sandboxes, commands: &commands, workspaces };
        programs.add(&mut runtimes, &declared).map_err(unusable)?;
        let host =
            RuntimeServices { runtimes: Arc::new(runtimes), credentials: authenticator, env };
        let mut tools = BTreeMap::new();
        for (namespace, Located { location: place, resource: what }) in declared.all_tools() {
            let subject = || format!("tool `{}`", what.name);
            let resource = with_server(&declared, namespace, what.clone());
            let tool = DeclaredTool::new(resource, namespace, host.clone())
                .map_err(|error| ManifestError::cannot_build(place, subject(), error))?;
            // A tool that this build cannot run fails when it is called. An invalid tool fails here.
            if host.runtimes.select(tool.resource()).is_ok() {
                tool.verify()
                    .map_err(|fault| ManifestError::from_tool_error(place, subject(), &fault))?;
            }
            tools.insert((namespace.to_owned(), what.name.trim().to_lowercase()), Arc::new(tool));
        }
        Ok(Self { declared, host, pool, mcp: Arc::new(mcp), tools })
    }

    /// Returns the manifests.
    pub fn declared(&self) -> &Arc<ResourceSet> {
        &self.declared
    }

    /// Returns the runtimes of the tools.
    pub fn runtimes(&self) -> &RuntimeRegistry {
        &self.host.runtimes
    }

    /// Returns the provider of the tools' credentials.
    pub fn authenticator(&self) -> &Arc<dyn CredentialProvider> {
        &self.host.credentials
    }

    /// Returns a tool of a namespace. `None` if it is not declared.
    pub fn tool(&self, namespace: &str, name: &str) -> Option<&Arc<DeclaredTool>> {
        self.tools.get(&(namespace.to_owned(), name.to_lowercase()))
    }

    /// Returns the tools of a namespace.
    pub fn tools(&self, namespace: &str) -> Vec<Arc<DeclaredTool>> {
        let in_namespace = self.tools.iter().filter(|((other, _), _)| other == namespace);
        in_namespace.map(|(_, tool)| Arc::clone(tool)).collect()
    }

    /// Returns the declared tools with these names. `*` stands for all tools of the namespace.
    pub fn tools_of(&self, namespace: &str, names: &[String]) -> Vec<Arc<dyn Tool>> {
        let has_all = names.iter().any(|name| name == ALL_TOOLS);
        let is_named = |tool: &Arc<DeclaredTool>| {
            has_all || names.iter().any(|name| name.eq_ignore_ascii_case(tool.spec().name()))
        };
        let all = self.tools(namespace).into_iter();
        all.filter(is_named).map(|tool| tool as Arc<dyn Tool>).collect()
    }

    /// Returns the tools of the MCP servers with these names. `*` stands for all servers of the namespace.
    pub fn servers_of(&self, namespace: &str, names: &[String]) -> Vec<McpToolset> {
        let has_all = names.iter().any(|name| name == ALL_TOOLS);
        let is_named = |server: &&McpServerResource| {
            has_all || names.iter().any(|name| name.eq_ignore_ascii_case(&server.name))
        };
        let named = self.declared.servers(namespace).filter(is_named);
        named.filter_map(|server| self.mcp.toolset(namespace, &server.name)).collect()
    }

    /// Closes connections and stops programs.
    pub async fn close(&self) {
        self.pool.close().await;
    }
}

/// Replaces the server name of an MCP tool by its declared spelling, because the runtime compares names with case.
fn with_server(declared: &ResourceSet, namespace: &str, mut tool: ToolResource) -> ToolResource {
    if let Some(reference) = &mut tool.mcp
        && let Some(server) = declared.server(namespace, &reference.server)
    {
        reference.server.clone_from(&server.name);
    }
    tool
}

/// Creates the runtimes that need no sandbox.
fn runtimes(
    outbound: &ToolHttpClient,
    mcp: &McpRuntime,
    callbacks: Option<CallbackRegistry>,
) -> Result<RuntimeRegistry, RegistryError> {
    let mut runtimes = RuntimeRegistry::default();
    let webhook = CallbackOptions { callbacks, ..CallbackOptions::default() };
    let all: [Arc<dyn ToolRuntime>; 5] = [
        Arc::new(HttpRuntime::new(outbound.clone())),
        Arc::new(ExternalRuntime::new(outbound.clone())),
        Arc::new(CallbackRuntime::new(outbound.clone(), webhook)),
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

/// Builder of MCP servers.
struct McpServerBuilder<'a> {
    secrets: &'a SecretService,
    sandboxes: &'a Sandboxes,
    network: NetPolicy,
    allow_private_tools: bool,
}

impl McpServerBuilder<'_> {
    /// Returns the launcher of a server that requires isolation. `None` if the server runs without isolation.
    fn launcher(
        &self,
        namespace: &str,
        server: &McpServerResource,
    ) -> Result<Option<Arc<dyn ProcessLauncher>>, ToolContractError> {
        let Some(isolation) = &server.isolation else { return Ok(None) };
        let mode = match isolation.mode {
            IsolationMode::None => return Ok(None),
            IsolationMode::Sandboxed => self.sandboxes.default_mode(),
            other => other,
        };
        self.sandboxes.sandbox(mode).launcher(namespace, &server.name, isolation).map(Some)
    }

    /// Registers an MCP server with its secrets.
    async fn add(
        &self,
        mcp: &mut McpRuntime,
        namespace: &str,
        server: &McpServerResource,
        place: &SourceLocation,
    ) -> Result<(), ManifestError> {
        let cannot_build = |problem: String| {
            let subject = format!("MCP server `{}`", server.name);
            ManifestError::cannot_build(place, subject, problem)
        };
        let only = server.tool_filter.include.clone();
        let added = match server.transport {
            McpTransport::Stdio => {
                let program = self.stdio(namespace, server).await;
                let program = program.map_err(cannot_build)?;
                mcp.add_program_with(namespace, &server.name, program, |mcp_server| {
                    mcp_server.allowed_tools(only)
                })
            }
            McpTransport::Http => {
                let header = self.http_header(namespace, server).await;
                let header = header.map_err(cannot_build)?;
                let network = NetPolicy {
                    allow_private: self.network.allow_private
                        || (self.allow_private_tools && server.allow_private),
                    ..self.network
                };
                mcp.add_address(namespace, &server.name, &server.endpoint, |mcp_server| {
                    let mcp_server = mcp_server.net_policy(network).allowed_tools(only);
                    match header {
                        Some((name, value)) => mcp_server.header(name, value),
                        None => mcp_server,
                    }
                })
            }
        };
        added.map_err(|fault: ToolContractError| cannot_build(fault.message))
    }

    /// Returns the program of a server with its variables and its launcher.
    async fn stdio(
        &self,
        namespace: &str,
        server: &McpServerResource,
    ) -> Result<StdioServer, String> {
        let mut program = StdioServer::new(&server.command);
        program.args.clone_from(&server.args);
        for variable in &server.env {
            let value = match &variable.value {
                Some(value) => value.clone().into(),
                None => {
                    let reference = variable.secret_ref.as_deref().unwrap_or_default();
                    self.secret(namespace, reference).await?
                }
            };
            program.env.push((variable.name.clone(), value));
        }
        program.launcher = self.launcher(namespace, server).map_err(|fault| fault.message)?;
        Ok(program)
    }

    /// Returns the header that authenticates at a server, if it needs one.
    async fn http_header(
        &self,
        namespace: &str,
        server: &McpServerResource,
    ) -> Result<Option<(String, String)>, String> {
        let Some(auth) = &server.auth else { return Ok(None) };
        let value = self.secret(namespace, &auth.secret_ref).await?;
        let value = value.expose();
        match auth.profile {
            AuthProfile::Bearer => {
                Ok(Some(("authorization".to_owned(), format!("Bearer {value}"))))
            }
            AuthProfile::ApiKeyHeader => Ok(Some((auth.header_name.clone(), value.clone()))),
            AuthProfile::Basic | AuthProfile::Oauth2ClientCredentials => {
                let problem = "the auth profile must be `bearer` or `api_key_header`";
                Err(problem.to_owned())
            }
        }
    }

    /// Resolves a secret reference. Returns a message if it is malformed or has no value.
    async fn secret(
        &self,
        namespace: &str,
        reference: &str,
    ) -> Result<provost_core::Secret<String>, String> {
        let problem = |error: provost_secret::SecretError| error.to_string();
        let reference: SecretRef = reference.parse().map_err(problem)?;
        self.secrets.get(namespace, &reference).await.map_err(problem)
    }
}
