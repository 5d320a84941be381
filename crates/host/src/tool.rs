//! The tools of agents, and the redaction, policy, audit and output storage of every call.

mod builtin;
mod declared;
mod note;
mod shell;
mod workspaces;

use std::fs::DirBuilder;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_builtin::read_output;
use provost_core::ErrorKind;
use provost_core::id::name::Namespace;
use provost_core::resource::AgentSpec;
use provost_engine::Records;
use provost_mcp::McpToolset;
use provost_net::{NetPolicy, Url};
use provost_redact::Redactor;
use provost_sandbox::ContainerOptions;
use provost_secret::{
    ChainResolver, EnvResolver, FileResolver, KeySource, SecretError, SecretService, StoreResolver,
    Vault,
};
use provost_store::Store;
use provost_tool::{FileArtifactStore, GuardServices, Tool};
use provost_workspace::conversation::ConversationWorkspaces;
use provost_workspace::{Access, WorkspaceRoot};

pub use self::builtin::{Files, builtin_tools};
pub use self::declared::{DeclaredTools, ToolRegistryConfig, modules_dir};
use self::shell::LazySandboxes;
pub use self::shell::{Shell, ShellHost};

use crate::error::HostError;
use crate::registry::ToolRegistry;

/// Directory of complete outputs in the data directory, and its subdirectory that agents can read.
const ARTIFACTS: &str = "artifacts";
const OUTPUTS: &str = "outputs";

/// Networks that declared tools can reach.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolNetwork {
    /// The public internet, over TLS
    #[default]
    Public,
    /// Also without TLS; private networks if the tool declares `allow_private`
    Private,
    /// Also this machine
    Local,
}

impl ToolNetwork {
    /// Returns the network policy of a tool. `allow_private` is the value that the tool declares.
    pub fn for_tool(self, allow_private: bool) -> NetPolicy {
        let policy = self.policy();
        let private = policy.allow_private || (allow_private && self != Self::Public);
        NetPolicy { allow_private: private, ..policy }
    }

    /// Returns the network policy of the process, before a tool requests private networks.
    fn policy(self) -> NetPolicy {
        match self {
            Self::Public => NetPolicy::default(),
            Self::Private => NetPolicy { plain_http: true, ..NetPolicy::default() },
            Self::Local => NetPolicy::open(),
        }
    }
}

/// Configuration of the tools of a process.
#[derive(Default)]
pub struct ToolConfig {
    /// File or directory of manifests. `None` if the process has no declared tools.
    pub manifests: Option<PathBuf>,
    /// Networks that declared tools can reach.
    pub network: ToolNetwork,
    /// Programs that declared MCP servers and `cli` tools can start.
    pub commands: Vec<String>,
    /// Directory with one file per secret.
    pub secrets_dir: Option<PathBuf>,
    /// Containers of declared programs. `None` if programs do not run in containers.
    pub container: Option<ContainerOptions>,
    /// Roles of agents that are not declared.
    pub roles: Vec<String>,
    /// Shell of agents. `None` if agents have no shell.
    pub shell: Option<Shell>,
    /// URL at which tools deliver later results.
    pub callbacks: Option<Url>,
}

/// Directory, database and redactor that the tools use.
pub struct ToolDeps<'a> {
    /// Data directory.
    pub dir: &'a Path,
    /// Database in the data directory.
    pub store: &'a Store,
    /// Redactor of known secrets.
    pub redactor: &'a Redactor,
}

/// Provides agents with tools, and applies redaction, policy, audit and output storage to every call.
pub struct ToolProvider {
    /// Declared tools. `None` without manifests.
    pub declared: Option<DeclaredTools>,
    guard_services: GuardServices,
    artifacts: PathBuf,
    sandbox: LazySandboxes,
    /// Workspaces of sessions.
    workspaces: Option<ConversationWorkspaces>,
}

impl ToolProvider {
    /// Loads the manifests and builds their tools. Returns an error if a manifest is invalid.
    pub async fn open(config: &ToolConfig, deps: ToolDeps<'_>) -> Result<Self, HostError> {
        let artifacts = deps.dir.join(ARTIFACTS);
        let records = Arc::new(Records::new(deps.store.clone()));
        let mut provider = Self {
            declared: None,
            guard_services: GuardServices {
                redact: Some(Arc::new(deps.redactor.clone())),
                audit: Some(Arc::clone(&records) as _),
                usage: Some(records),
                ..GuardServices::default()
            },
            artifacts,
            sandbox: LazySandboxes::default(),
            workspaces: None,
        };
        if config.manifests.is_some() || config.shell.is_some() {
            make_private_dir(&provider.artifacts)?;
            let spill = FileArtifactStore::new(provider.artifacts.join(OUTPUTS), OUTPUTS);
            provider.guard_services.artifacts = Some(Arc::new(spill));
        }
        if config.shell.is_some() {
            provider.sandbox.probe().await?;
        }
        let uses_session_files = config.shell.as_ref().is_some_and(Shell::uses_session_files);
        if config.manifests.is_some() || uses_session_files {
            provider.workspaces = Some(workspaces::open(deps.dir).await?);
        }
        if let Some(path) = &config.manifests {
            let workspaces = provider.workspaces.clone();
            let registry = ToolRegistryConfig::new(path, config, &deps, workspaces).await?;
            let declared = DeclaredTools::open(path, config, registry).await?;
            provider.guard_services.policies = Some(Arc::clone(&declared.governor) as _);
            provider.declared = Some(declared);
        }
        Ok(provider)
    }

    /// Probes the sandbox for an agent with a shell. Returns an error if no sandbox is available.
    pub async fn prepare_shell(&self) -> Result<(), HostError> {
        self.sandbox.probe().await
    }

    /// Returns the services of the guard: redaction, policy, audit, usage records and output storage.
    pub fn guard_services(&self) -> GuardServices {
        self.guard_services.clone()
    }

    /// Returns the dependencies of shells. Returns an error if [`prepare_shell`](Self::prepare_shell) was not called.
    pub fn shell_host(&self) -> Result<ShellHost, HostError> {
        Ok(ShellHost {
            sandbox: self.sandbox.found()?,
            spill: self.guard_services.artifacts.clone(),
            workspaces: self.workspaces.clone(),
        })
    }

    /// Returns the declared tools and MCP servers that an agent names.
    pub(crate) fn declared_tools(
        &self,
        namespace: &str,
        spec: &AgentSpec,
    ) -> Result<SelectedTools, HostError> {
        match &self.declared {
            Some(declared) => Ok(select(&declared.current(), namespace, spec)),
            None if spec.require_no_operator_fields().is_err() => Err(HostError::invalid(
                "it is declared in manifests that this process does not use: start with --manifests PATH",
            )),
            None => Ok(SelectedTools::default()),
        }
    }

    /// Returns the names and descriptions of the declared tools of a local agent.
    pub fn descriptions(&self) -> Vec<(String, String)> {
        let Some(declared) = &self.declared else { return Vec::new() };
        let namespace = Namespace::default();
        let registry = declared.current();
        let tools = registry.declared().tools(namespace.as_str());
        tools.map(|tool| (tool.name.clone(), tool.description.clone())).collect()
    }

    /// Creates the tool that reads stored outputs. `None` if outputs are not stored.
    pub fn output_reader(&self) -> Result<Option<Arc<dyn Tool>>, HostError> {
        if self.guard_services.artifacts.is_none() {
            return Ok(None);
        }
        let workspace = WorkspaceRoot::open(&self.artifacts, Access::ReadOnly)
            .map_err(|error| HostError::new(error.kind(), error.to_string()))?;
        let tool = read_output(&workspace)
            .map_err(|error| HostError::new(ErrorKind::Bug, error.to_string()))?;
        Ok(Some(Arc::new(tool)))
    }

    /// Closes connections and stops programs of the declared tools.
    pub async fn close(&self) {
        if let Some(declared) = &self.declared {
            declared.current().close().await;
        }
    }
}

/// Declared tools and toolsets that are selected for an agent.
#[derive(Default)]
pub(crate) struct SelectedTools {
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) toolsets: Vec<McpToolset>,
    /// True if the agent can read stored outputs, because its tools write them.
    pub(crate) reads_outputs: bool,
}

/// Selects the declared tools of an agent.
fn select(registry: &ToolRegistry, namespace: &str, spec: &AgentSpec) -> SelectedTools {
    let tools = registry.tools_of(namespace, &spec.declared_tools);
    let toolsets = registry.servers_of(namespace, &spec.mcp_servers);
    SelectedTools { reads_outputs: !tools.is_empty() || !toolsets.is_empty(), tools, toolsets }
}

/// Creates the sources of secrets: the database, then the environment, then files.
async fn secrets(config: &ToolConfig, deps: &ToolDeps<'_>) -> Result<SecretService, HostError> {
    let secret_error = |error: SecretError| HostError::new(error.kind(), error.to_string());
    let env = |name: &str| std::env::var(name).ok();
    let mut chain = ChainResolver::new();
    let source = KeySource::find(deps.dir, env).map_err(secret_error)?;
    match source.load(env).map_err(secret_error)? {
        Some(keys) => chain = chain.then(StoreResolver::new(Arc::new(deps.store.clone()), keys)),
        None => {
            let facts = Vault::metadata(deps.store, None).await.map_err(secret_error)?;
            // Without the key, the secrets would seem missing, and secrets of other sources would be used instead.
            if !facts.is_empty() {
                let message = format!("the master key of {} secrets is missing", facts.len());
                return Err(HostError::new(ErrorKind::Unavailable, message).hint(
                    "set PROVOST_MASTER_KEY or PROVOST_MASTER_KEY_FILE, or restore `secrets.key`",
                ));
            }
        }
    }
    chain = chain.then(EnvResolver::new());
    if let Some(dir) = &config.secrets_dir {
        chain = chain.then(FileResolver::new(dir));
    }
    Ok(SecretService::new(Arc::new(chain), deps.redactor.clone()))
}

/// Creates a directory that only its owner can access. An existing directory is not changed.
pub fn make_private_dir(dir: &Path) -> Result<(), HostError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(dir)
        .map_err(|error| HostError::io(format!("the data directory {}", dir.display()), &error))
}
