//! The tools of agents and what surrounds every call: declarations, secrets, policy, audit and the storage of long outputs.

mod builtin;
mod declared;
mod note;
mod shell;
mod workspaces;

use std::fs::DirBuilder;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_agent::AgentBuilder;
use provost_builtin::read_output;
use provost_core::id::name::Namespace;
use provost_core::{Env, ErrorKind};
use provost_mcp::McpTools;
use provost_net::{NetPolicy, Url};
use provost_redact::Redactor;
use provost_sandbox::ContainerOptions;
use provost_secret::{
    ChainResolver, EnvResolver, FileResolver, KeySource, SecretError, Secrets, StoreResolver, Vault,
};
use provost_store::Store;
use provost_tool::{FileSpill, Oversight, Tool};
use provost_workspace::conversation::Workspaces;
use provost_workspace::{Access, Workspace};

pub use self::builtin::{Files, builtin_tools};
pub use self::declared::{DeclaredTools, ToolRegistryConfig, modules_dir};
use self::shell::Sandbox;
pub use self::shell::{Shell, ShellAccess, ShellApproval, ShellHost, ShellWorkspace};

use crate::error::HostError;
use crate::records::Records;
use crate::workshop::Workshop;

/// The directory of whole outputs in the data directory, and the one in it that agents know.
const ARTIFACTS: &str = "artifacts";
const OUTPUTS: &str = "outputs";

/// Where declared tools may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ToolNetwork {
    /// On the public internet, over TLS
    #[default]
    Public,
    /// Also without TLS, and in the private network those that declare `allow_private`
    Private,
    /// Also on this machine
    Local,
}

impl ToolNetwork {
    /// What counts for a tool that wants to be in the private network, or does not.
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

/// What the tools of one process are configured with.
#[derive(Default)]
pub struct ToolConfig {
    /// A file or a directory of agents, tools, roles, rules and MCP servers.
    pub resources: Option<PathBuf>,
    /// Where declared tools may be.
    pub network: ToolNetwork,
    /// The programs that declared MCP servers and `cli` tools may start.
    pub commands: Vec<String>,
    /// A directory with secrets, a file for each.
    pub secrets_dir: Option<PathBuf>,
    /// Containers for declared programs.
    pub container: Option<ContainerOptions>,
    /// Roles of agents that are not declared.
    pub roles: Vec<String>,
    /// The shell of agents, if they have one.
    pub shell: Option<Shell>,
    /// Where tools deliver results that come later.
    pub callbacks: Option<Url>,
}

/// What tools are built on.
pub struct ToolDeps<'a> {
    /// The data directory.
    pub dir: &'a Path,
    /// The database in it.
    pub store: &'a Store,
    /// The values that are never shown.
    pub redactor: &'a Redactor,
}

/// Provides agents with tools, and surrounds every call with redaction, policy, audit and storage.
pub struct ToolProvider {
    /// The declared tools; none without a path to read them from.
    pub declared: Option<DeclaredTools>,
    oversight: Oversight,
    artifacts: PathBuf,
    sandbox: Sandbox,
    /// The files of conversations.
    workspaces: Option<Workspaces>,
}

/// Which of the declared tools an agent gets that is not declared itself.
pub enum ToolSelection<'a> {
    /// All of its namespace.
    All,
    /// Those with these names.
    Named(&'a [String]),
}

/// The agent that tools are attached to.
#[derive(Clone, Copy)]
pub struct AgentRef<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

impl ToolProvider {
    /// Reads the declarations and builds their tools. An error in them is reported now and not by the first call.
    pub async fn open(config: &ToolConfig, deps: ToolDeps<'_>) -> Result<Self, HostError> {
        let artifacts = deps.dir.join(ARTIFACTS);
        let records = Arc::new(Records::new(deps.store.clone(), Env::system()));
        let mut provider = Self {
            declared: None,
            oversight: Oversight {
                redact: Some(Arc::new(deps.redactor.clone())),
                audit: Some(Arc::clone(&records) as _),
                meter: Some(records),
                ..Oversight::default()
            },
            artifacts,
            sandbox: Sandbox::default(),
            workspaces: None,
        };
        if config.resources.is_some() || config.shell.is_some() {
            make_private_dir(&provider.artifacts)?;
            let spill = FileSpill::new(provider.artifacts.join(OUTPUTS), OUTPUTS);
            provider.oversight.spill = Some(Arc::new(spill));
        }
        if config.shell.is_some() {
            provider.sandbox.probe().await?;
        }
        let keeps_files = config.shell.as_ref().is_some_and(Shell::keeps_files);
        if config.resources.is_some() || keeps_files {
            provider.workspaces = Some(workspaces::open(deps.dir).await?);
        }
        if let Some(path) = &config.resources {
            let workspaces = provider.workspaces.clone();
            let registry = ToolRegistryConfig::new(path, config, &deps, workspaces).await?;
            let declared = DeclaredTools::open(path, config, registry).await?;
            provider.oversight.governor = Some(Arc::clone(&declared.governor) as _);
            provider.declared = Some(declared);
        }
        Ok(provider)
    }

    /// Probes the sandbox for an agent that runs command lines.
    pub async fn prepare_shell(&self) -> Result<(), HostError> {
        self.sandbox.probe().await
    }

    /// The same for every call.
    pub fn oversight(&self) -> Oversight {
        self.oversight.clone()
    }

    /// What shells run on.
    pub fn shell_host(&self) -> Result<ShellHost, HostError> {
        Ok(ShellHost {
            sandbox: self.sandbox.found()?,
            spill: self.oversight.spill.clone(),
            workspaces: self.workspaces.clone(),
        })
    }

    /// Attaches the tools that an agent may use, and puts all its calls under oversight. `reads_outputs` says that its other
    /// tools write outputs that it must be able to read.
    pub fn attach(
        &self,
        builder: AgentBuilder,
        agent: AgentRef<'_>,
        selection: &ToolSelection<'_>,
        reads_outputs: bool,
    ) -> Result<AgentBuilder, HostError> {
        let mut builder = builder.oversight(self.oversight());
        let selected = match &self.declared {
            Some(declared) => select(&declared.workshop(), agent, selection),
            None => SelectedTools::default(),
        };
        if reads_outputs || selected.reads_outputs {
            builder = builder.tools(self.outputs()?);
        }
        builder = builder.tools(selected.tools);
        Ok(selected.toolsets.into_iter().fold(builder, AgentBuilder::toolset))
    }

    /// True if an agent is declared here.
    pub fn declares(&self, namespace: &str, name: &str) -> bool {
        let declared = self.declared.as_ref();
        declared
            .is_some_and(|declared| declared.workshop().declared().agent(namespace, name).is_some())
    }

    /// Names and descriptions of what an agent of the terminal gets.
    pub fn described(&self) -> Vec<(String, String)> {
        let Some(declared) = &self.declared else { return Vec::new() };
        let namespace = Namespace::default();
        let workshop = declared.workshop();
        let tools = workshop.declared().tools(namespace.as_str());
        tools.map(|tool| (tool.name.clone(), tool.description.clone())).collect()
    }

    /// What reads outputs that were kept whole.
    pub fn outputs(&self) -> Result<Option<Arc<dyn Tool>>, HostError> {
        if self.oversight.spill.is_none() {
            return Ok(None);
        }
        let place = Workspace::open(&self.artifacts, Access::ReadOnly)
            .map_err(|error| HostError::new(error.kind(), error.to_string()))?;
        let tool = read_output(&place)
            .map_err(|error| HostError::new(ErrorKind::Bug, error.to_string()))?;
        Ok(Some(Arc::new(tool)))
    }

    /// Ends connections and programs.
    pub async fn close(&self) {
        if let Some(declared) = &self.declared {
            declared.workshop().close().await;
        }
    }
}

/// The declared tools of one agent.
#[derive(Default)]
struct SelectedTools {
    tools: Vec<Arc<dyn Tool>>,
    toolsets: Vec<McpTools>,
    /// True if the agent reads outputs that were stored whole.
    reads_outputs: bool,
}

fn select(
    workshop: &Workshop,
    agent: AgentRef<'_>,
    selection: &ToolSelection<'_>,
) -> SelectedTools {
    let AgentRef { namespace, name } = agent;
    let server = |name: &str| workshop.server(namespace, name);
    if let Some(agent) = workshop.declared().agent(namespace, name) {
        let tools = workshop.tools_of(agent);
        return SelectedTools {
            reads_outputs: !tools.is_empty() || !agent.mcp_servers.is_empty(),
            tools,
            toolsets: agent.mcp_servers.iter().filter_map(|name| server(name)).collect(),
        };
    }
    let all = workshop.tools(namespace).into_iter().map(|tool| tool as Arc<dyn Tool>);
    match selection {
        ToolSelection::All => SelectedTools {
            tools: all.collect(),
            toolsets: workshop
                .declared()
                .servers(namespace)
                .filter_map(|declared| server(&declared.name))
                .collect(),
            reads_outputs: true,
        },
        ToolSelection::Named(names) => {
            let is_named = |tool: &Arc<dyn Tool>| {
                names.iter().any(|name| name.eq_ignore_ascii_case(tool.spec().name()))
            };
            let tools: Vec<_> = all.filter(is_named).collect();
            SelectedTools { reads_outputs: !tools.is_empty(), tools, toolsets: Vec::new() }
        }
    }
}

/// The places where secrets are: the database, then the environment, then files.
async fn secrets(config: &ToolConfig, deps: &ToolDeps<'_>) -> Result<Secrets, HostError> {
    let refused = |error: SecretError| HostError::new(error.kind(), error.to_string());
    let env = |name: &str| std::env::var(name).ok();
    let mut chain = ChainResolver::new();
    let source = KeySource::find(deps.dir, env).map_err(refused)?;
    match source.load(env).map_err(refused)? {
        Some(keys) => chain = chain.then(StoreResolver::new(Arc::new(deps.store.clone()), keys)),
        None => {
            let facts = Vault::facts(deps.store, None).await.map_err(refused)?;
            // Without the key they would only seem not to be there, and others would be used in their place.
            if !facts.is_empty() {
                let what = format!("{} secrets are sealed and their key is not here", facts.len());
                return Err(HostError::new(ErrorKind::Unavailable, what).hint(
                    "set PROVOST_MASTER_KEY or PROVOST_MASTER_KEY_FILE, or put `secrets.key` back",
                ));
            }
        }
    }
    chain = chain.then(EnvResolver::new());
    if let Some(dir) = &config.secrets_dir {
        chain = chain.then(FileResolver::new(dir));
    }
    Ok(Secrets::new(Arc::new(chain), deps.redactor.clone()))
}

/// Makes a directory, for its owner only; one that is there stays as it is.
pub fn make_private_dir(dir: &Path) -> Result<(), HostError> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder
        .create(dir)
        .map_err(|error| HostError::io(format!("the data directory {}", dir.display()), &error))
}
