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
use provost_store::{Store, query};
use provost_tool::{FileArtifactStore, GuardServices, Tool};
use provost_tool_runtime::CallbackRegistry;
use provost_workspace::conversation::ConversationWorkspaces;
use provost_workspace::{Access, WorkspaceRoot};
use tokio::task::JoinSet;

pub use self::builtin::{Files, builtin_tools};
pub use self::declared::{DeclaredTools, ToolRegistryConfig, modules_dir};
use self::shell::LazySandboxes;
pub use self::shell::{Shell, ShellHost};

use crate::error::HostError;
use crate::registry::ToolRegistry;
use crate::resources::{ResourceSets, StoredPolicy};

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

    fn policy(self) -> NetPolicy {
        match self {
            Self::Public => NetPolicy::default(),
            Self::Private => NetPolicy { plain_http: true, ..NetPolicy::default() },
            Self::Local => NetPolicy::open(),
        }
    }
}

/// Configuration of the tools of a process.
#[derive(Clone, Default)]
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
    /// True if the manifests become the current set of the database. If false, only agents of this process use them.
    pub applies_manifests: bool,
    /// Shell of agents. `None` if agents have no shell.
    pub shell: Option<Shell>,
    /// URL at which tools deliver later results.
    pub callbacks: Option<Url>,
}

/// Dependencies of the tools.
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
    /// Registry of calls whose results are delivered later. `None` without a callback URL.
    pub callbacks: Option<CallbackRegistry>,
    guard_services: GuardServices,
    policy: Arc<StoredPolicy>,
    sets: Arc<ResourceSets>,
    artifacts: PathBuf,
    sandbox: LazySandboxes,
    /// Workspaces of sessions.
    workspaces: Option<ConversationWorkspaces>,
    /// Task that follows the current set of the database. It ends with the provider.
    _follower: JoinSet<()>,
}

impl ToolProvider {
    /// Loads the manifests and builds their tools. Returns an error if a manifest is invalid.
    pub async fn open(config: &ToolConfig, deps: ToolDeps<'_>) -> Result<Self, HostError> {
        let records = Arc::new(Records::new(deps.store.clone()));
        let artifacts = deps.dir.join(ARTIFACTS);
        let sandbox = LazySandboxes::default();
        let current = query::resource_set::current(deps.store).await;
        let current =
            current.map_err(|error| HostError::new(ErrorKind::Unavailable, error.to_string()))?;
        let has_resources = config.manifests.is_some() || current.is_some();
        let mut spill = None;
        if has_resources || config.shell.is_some() {
            make_private_dir(&artifacts)?;
            let outputs = FileArtifactStore::new(artifacts.join(OUTPUTS), OUTPUTS);
            spill = Some(Arc::new(outputs) as _);
        }
        if config.shell.is_some() {
            sandbox.probe().await?;
        }
        let uses_session_files = config.shell.as_ref().is_some_and(Shell::uses_session_files);
        let workspaces = match has_resources || uses_session_files {
            true => Some(workspaces::open(deps.dir).await?),
            false => None,
        };
        let callbacks = match &config.callbacks {
            None => None,
            Some(base) => Some(
                CallbackRegistry::with_random_key(base.clone())
                    .map_err(|fault| HostError::new(ErrorKind::Unavailable, fault.message))?,
            ),
        };
        let registries =
            ToolRegistryConfig::new(config, &deps, workspaces.clone(), callbacks.clone());
        let sets = Arc::new(ResourceSets::new(deps.store.clone(), registries));
        let policy = Arc::new(StoredPolicy::new(Arc::clone(&sets)));
        let declared = match &config.manifests {
            None => None,
            Some(path) => {
                let (sets, policy) = (Arc::clone(&sets), Arc::clone(&policy));
                Some(DeclaredTools::open(path, sets, policy).await?)
            }
        };
        let mut follower = JoinSet::new();
        if declared.is_none() || config.applies_manifests {
            let seen = match &declared {
                // The rules of the manifests apply until they are the current set.
                Some(_) => current.map(|current| current.version),
                None => policy.load(None).await?,
            };
            let policy = Arc::clone(&policy);
            follower.spawn(async move { policy.follow(seen).await });
        }
        Ok(Self {
            declared,
            callbacks,
            guard_services: GuardServices {
                policies: Some(Arc::clone(&policy) as _),
                redact: Some(Arc::new(deps.redactor.clone())),
                artifacts: spill,
                audit: Some(Arc::clone(&records) as _),
                usage: Some(records),
                ..GuardServices::default()
            },
            policy,
            sets,
            artifacts,
            sandbox,
            workspaces,
            _follower: follower,
        })
    }

    /// Returns the rules of the calls.
    pub fn policy(&self) -> &StoredPolicy {
        &self.policy
    }

    /// Probes the sandbox for an agent with a shell.
    pub async fn prepare_shell(&self) -> Result<(), HostError> {
        self.sandbox.probe().await
    }

    /// Returns the guard_services of every call.
    pub fn guard_services(&self) -> GuardServices {
        self.guard_services.clone()
    }

    /// Returns the dependencies of shells.
    pub fn shell_host(&self) -> Result<ShellHost, HostError> {
        Ok(ShellHost {
            sandbox: self.sandbox.found()?,
            spill: self.guard_services.artifacts.clone(),
            workspaces: self.workspaces.clone(),
        })
    }

    /// Returns the declared tools and MCP servers that an agent names, from the resource set of its run.
    pub(crate) async fn declared_tools(
        &self,
        namespace: &str,
        spec: &AgentSpec,
        set: Option<&str>,
    ) -> Result<SelectedTools, HostError> {
        if spec.declared_tools.is_empty() && spec.mcp_servers.is_empty() {
            return Ok(SelectedTools::default());
        }
        match set {
            Some(hash) => Ok(select(self.sets.registry(hash).await?.as_ref(), namespace, spec)),
            None if spec.mcp_servers.is_empty() => Ok(SelectedTools::default()),
            None => Err(HostError::invalid(
                "its run has no resource set: submit it again after \
                 `provost serve --manifests PATH` has stored one",
            )),
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

    /// Returns the tool that reads stored outputs. `None` if outputs are not stored.
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

    /// Closes connections and stops programs.
    pub async fn close(&self) {
        self.sets.close().await;
    }
}

/// Declared tools of an agent.
#[derive(Default)]
pub(crate) struct SelectedTools {
    pub(crate) tools: Vec<Arc<dyn Tool>>,
    pub(crate) toolsets: Vec<McpToolset>,
    /// True if the agent can read stored outputs, because its tools write them.
    pub(crate) reads_outputs: bool,
}

fn select(registry: &ToolRegistry, namespace: &str, spec: &AgentSpec) -> SelectedTools {
    let tools = registry.tools_of(namespace, &spec.declared_tools);
    let toolsets = registry.servers_of(namespace, &spec.mcp_servers);
    SelectedTools { reads_outputs: !tools.is_empty() || !toolsets.is_empty(), tools, toolsets }
}

/// Returns the sources of secrets: the database, then the environment, then files.
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
