//! What stands around the tools of this program: what was declared, secrets, records, and where long outputs go.

mod container;
mod house;
mod shop;
mod workspaces;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use provost_agent::AgentBuilder;
use provost_builtin::read_output;
use provost_core::work::Namespace;
use provost_core::{Env, ErrorKind};
use provost_host::Records;
use provost_net::{NetPolicy, Url};
use provost_redact::Redactor;
use provost_secret::{
    ChainResolver, EnvResolver, FileResolver, KeySource, SecretError, Secrets, StoreResolver, Vault,
};
use provost_store::Store;
use provost_tool::{FileSpill, Oversight, Tool};
use provost_workspace::conversation::Workspaces;
use provost_workspace::{Access, Workspace};

pub(crate) use self::container::ContainerArgs;
pub(crate) use self::house::{DECLARED, told};
use self::shop::Shop;
pub(crate) use self::shop::{Means, modules_dir};

use crate::problem::Problem;
use crate::tool::{Keeps, Shell};

/// The directory of whole outputs in the data directory, and the one in it that agents know.
const ARTIFACTS: &str = "artifacts";
const OUTPUTS: &str = "outputs";

/// Where declared tools may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(crate) enum ToolNetwork {
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
    pub(crate) fn for_tool(self, allow_private: bool) -> NetPolicy {
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

/// What the command line says about declared tools.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(next_help_heading = "Declared tools")]
pub(crate) struct ToolroomArgs {
    /// A file or a directory of agents, tools, roles, rules and MCP servers, in YAML or JSON
    #[arg(long, value_name = "PATH")]
    pub(crate) resources: Option<PathBuf>,
    /// Where declared tools may be
    #[arg(long, value_enum, default_value_t, value_name = "WHERE")]
    pub(crate) tool_network: ToolNetwork,
    /// A program that declared MCP servers and `cli` tools may start, written as it is there; can be repeated
    #[arg(long, value_name = "COMMAND")]
    pub(crate) allow_command: Vec<String>,
    /// A directory with secrets, a file for each, looked at after the database and the environment
    #[arg(long, value_name = "DIR")]
    pub(crate) secrets_dir: Option<PathBuf>,
    /// Containers for declared programs
    #[command(flatten)]
    pub(crate) container: ContainerArgs,
}

/// What a toolroom belongs to.
pub(crate) struct Site<'a> {
    /// The data directory.
    pub(crate) dir: &'a Path,
    /// The database in it.
    pub(crate) store: &'a Store,
    /// What is never shown.
    pub(crate) redactor: &'a Redactor,
    /// Where tools hand in answers that come later.
    pub(crate) callbacks: Option<Url>,
    /// Roles of agents that are not declared.
    pub(crate) roles: Vec<String>,
    /// The shell of agents, if there is one.
    pub(crate) shell: Option<&'a Shell>,
}

/// What stands around the tools of this program.
pub(crate) struct Toolroom {
    /// What was declared, and where; nothing if no path was given.
    pub(crate) shop: Option<Shop>,
    oversight: Oversight,
    artifacts: PathBuf,
    /// The files of conversations.
    workspaces: Option<Workspaces>,
}

/// Which of the declared tools an agent gets that is not declared itself.
pub(crate) enum Wish<'a> {
    /// All of its namespace.
    All,
    /// Those with these names.
    Named(&'a [String]),
}

impl Toolroom {
    /// Reads what was declared and sets it up. What is wrong with it is said now and not by the first call.
    pub(crate) async fn open(args: &ToolroomArgs, site: Site<'_>) -> Result<Self, Problem> {
        let artifacts = site.dir.join(ARTIFACTS);
        let mut oversight =
            Oversight { redact: Some(Arc::new(site.redactor.clone())), ..Oversight::default() };
        if args.resources.is_some() || site.shell.is_some() {
            crate::data::make(&artifacts)?;
            let spill = FileSpill::new(artifacts.join(OUTPUTS), OUTPUTS);
            oversight.spill = Some(Arc::new(spill));
        }
        let Some(path) = &args.resources else {
            let workspaces = match site.shell.is_some_and(Shell::keeps_files) {
                true => Some(workspaces::open(site.dir).await?),
                false => None,
            };
            return Ok(Self { shop: None, oversight, artifacts, workspaces });
        };
        let records = Arc::new(Records::new(site.store.clone(), Env::system()));
        let workspaces = workspaces::open(site.dir).await?;
        let kept = (Arc::clone(&records) as _, workspaces.clone());
        let shop = Shop::open(path, args, &site, kept).await?;
        oversight.governor = Some(Arc::clone(&shop.governor) as _);
        oversight.audit = Some(Arc::clone(&records) as _);
        oversight.meter = Some(records);
        Ok(Self { shop: Some(shop), oversight, artifacts, workspaces: Some(workspaces) })
    }

    /// The same for every call.
    pub(crate) fn oversight(&self) -> Oversight {
        self.oversight.clone()
    }

    /// What is kept for shells.
    pub(crate) fn keeps(&self) -> Keeps {
        Keeps { spill: self.oversight.spill.clone(), workspaces: self.workspaces.clone() }
    }

    /// Gives an agent what it may use, and puts all its calls under what was declared. One with a shell can read what that
    /// wrote, however long it is.
    pub(crate) fn outfit(
        &self,
        mut builder: AgentBuilder,
        (namespace, name): (&str, &str),
        (wish, has_shell): (&Wish<'_>, bool),
    ) -> Result<AgentBuilder, Problem> {
        builder = builder.oversight(self.oversight());
        let Some(shop) = &self.shop else {
            let outputs = if has_shell { self.outputs()? } else { None };
            return Ok(builder.tools(outputs));
        };
        let workshop = shop.workshop();
        if let Some(agent) = workshop.declared().agent(namespace, name) {
            let tools = workshop.tools_of(agent);
            if has_shell || !tools.is_empty() || !agent.mcp_servers.is_empty() {
                builder = builder.tools(self.outputs()?);
            }
            builder = builder.tools(tools);
            for name in &agent.mcp_servers {
                if let Some(tools) = workshop.server(namespace, name) {
                    builder = builder.toolset(tools);
                }
            }
            return Ok(builder);
        }
        let all = workshop.tools(namespace).into_iter().map(|tool| tool as Arc<dyn Tool>);
        Ok(match wish {
            Wish::All => {
                builder = builder.tools(self.outputs()?).tools(all);
                for server in workshop.declared().servers(namespace) {
                    if let Some(tools) = workshop.server(namespace, &server.name) {
                        builder = builder.toolset(tools);
                    }
                }
                builder
            }
            Wish::Named(names) => {
                let named = |tool: &Arc<dyn Tool>| {
                    names.iter().any(|name| name.eq_ignore_ascii_case(tool.spec().name()))
                };
                let tools: Vec<_> = all.filter(named).collect();
                if has_shell || !tools.is_empty() {
                    builder = builder.tools(self.outputs()?);
                }
                builder.tools(tools)
            }
        })
    }

    /// True if an agent is declared here.
    pub(crate) fn declares(&self, namespace: &str, name: &str) -> bool {
        let shop = self.shop.as_ref();
        shop.is_some_and(|shop| shop.workshop().declared().agent(namespace, name).is_some())
    }

    /// Names and descriptions of what an agent of the terminal gets.
    pub(crate) fn described(&self) -> Vec<(String, String)> {
        let Some(shop) = &self.shop else { return Vec::new() };
        let namespace = Namespace::default();
        let workshop = shop.workshop();
        let tools = workshop.declared().tools(namespace.as_str());
        tools.map(|tool| (tool.name.clone(), tool.description.clone())).collect()
    }

    /// What reads outputs that were kept whole.
    pub(crate) fn outputs(&self) -> Result<Option<Arc<dyn Tool>>, Problem> {
        if self.oversight.spill.is_none() {
            return Ok(None);
        }
        let place = Workspace::open(&self.artifacts, Access::ReadOnly)
            .map_err(|error| Problem::new(error.kind(), error.to_string()))?;
        let tool =
            read_output(&place).map_err(|error| Problem::new(ErrorKind::Bug, error.to_string()))?;
        Ok(Some(Arc::new(tool)))
    }

    /// Ends connections and programs.
    pub(crate) async fn close(&self) {
        if let Some(shop) = &self.shop {
            shop.workshop().close().await;
        }
    }
}

/// The places where secrets are: the database, then the environment, then files.
async fn secrets(args: &ToolroomArgs, site: &Site<'_>) -> Result<Secrets, Problem> {
    let refused = |error: SecretError| Problem::new(error.kind(), error.to_string());
    let env = |name: &str| std::env::var(name).ok();
    let mut chain = ChainResolver::new();
    let source = KeySource::find(site.dir, env).map_err(refused)?;
    match source.load(env).map_err(refused)? {
        Some(keys) => chain = chain.then(StoreResolver::new(Arc::new(site.store.clone()), keys)),
        None => {
            let facts = Vault::facts(site.store, None).await.map_err(refused)?;
            // Without the key they would only seem not to be there, and others would be used in their place.
            if !facts.is_empty() {
                let what = format!("{} secrets are sealed and their key is not here", facts.len());
                return Err(Problem::new(ErrorKind::Unavailable, what).help(
                    "set PROVOST_MASTER_KEY or PROVOST_MASTER_KEY_FILE, or put `secrets.key` back",
                ));
            }
        }
    }
    chain = chain.then(EnvResolver::new());
    if let Some(dir) = &args.secrets_dir {
        chain = chain.then(FileResolver::new(dir));
    }
    Ok(Secrets::new(Arc::new(chain), site.redactor.clone()))
}
