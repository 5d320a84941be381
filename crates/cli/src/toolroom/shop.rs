//! What was declared in files, as it is at the moment: it can be read anew while the program runs.
//!
//! Invariant: whoever has begun with a tool keeps it as it was; what is refused changes nothing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use provost_core::{Env, ErrorKind};
use provost_host::{ModulePlaces, Workshop, WorkshopOptions};
use provost_redact::Redactor;
use provost_resource::{Change, DeclareError, Declared, DeclaredGovernor};
use provost_sandbox::{ContainerOptions, Launcher};
use provost_secret::Secrets;
use provost_server::App;
use provost_tool::AuditSink;
use provost_tool_runtime::{CallbackDesk, CommandAllowList};
use provost_workspace::conversation::Workspaces;

use super::{Site, house};
use super::{ToolNetwork, Toolroom, ToolroomArgs, secrets};
use crate::problem::Problem;

/// What was declared.
pub(crate) struct Shop {
    /// From where.
    pub(crate) path: PathBuf,
    /// Who decides about calls.
    pub(crate) governor: Arc<DeclaredGovernor>,
    /// Where answers that come later are handed in.
    pub(crate) desk: Option<CallbackDesk>,
    workshop: RwLock<Arc<Workshop>>,
    means: Means,
}

/// What workshops are made with.
pub(crate) struct Means {
    modules: ModulePlaces,
    network: ToolNetwork,
    commands: Vec<String>,
    secrets: Secrets,
    redactor: Redactor,
    audit: Arc<dyn AuditSink>,
    container: Option<ContainerOptions>,
    workspaces: Option<Workspaces>,
}

/// Where modules are kept below a data directory: compiled, fetched, or put there by hand.
pub(crate) fn modules_dir(data: &Path) -> PathBuf {
    data.join("wasm")
}

impl Means {
    /// What the arguments say. Modules are files beside what was declared.
    pub(crate) async fn of(
        files: &Path,
        args: &ToolroomArgs,
        site: &Site<'_>,
        (audit, workspaces): (Arc<dyn AuditSink>, Option<Workspaces>),
    ) -> Result<Self, Problem> {
        let files = if files.is_dir() { Some(files) } else { files.parent() };
        let modules =
            ModulePlaces { files: files.map(Path::to_owned), kept: Some(modules_dir(site.dir)) };
        Ok(Self {
            modules,
            network: args.tool_network,
            commands: args.allow_command.clone(),
            secrets: secrets(args, site).await?,
            redactor: site.redactor.clone(),
            audit,
            container: args.container.options()?,
            workspaces,
        })
    }

    /// Makes tools of what was declared.
    pub(crate) async fn workshop(
        &self,
        declared: Arc<Declared>,
        desk: Option<CallbackDesk>,
    ) -> Result<Workshop, Problem> {
        let options = WorkshopOptions {
            network: self.network.policy(),
            allow_private_tools: self.network != ToolNetwork::Public,
            commands: CommandAllowList::of(self.commands.iter().cloned()),
            launcher: Launcher::own().ok(),
            modules: self.modules.clone(),
            container: self.container.clone(),
            workspaces: self.workspaces.clone(),
            audit: Some(Arc::clone(&self.audit)),
            desk,
            secrets: self.secrets.clone(),
            redactor: self.redactor.clone(),
            env: Env::system(),
        };
        Workshop::open(declared, options).await.map_err(|error| refused(&error))
    }
}

impl Shop {
    /// Reads what was declared and sets it up.
    pub(super) async fn open(
        path: &Path,
        args: &ToolroomArgs,
        site: &Site<'_>,
        (audit, workspaces): (Arc<dyn AuditSink>, Workspaces),
    ) -> Result<Self, Problem> {
        let path =
            std::path::absolute(path).map_err(|error| Problem::io("the resources", &error))?;
        let declared = read(path.clone()).await?;
        let desk = match &site.callbacks {
            None => None,
            Some(base) => Some(
                CallbackDesk::with_random_key(base.clone())
                    .map_err(|fault| Problem::new(ErrorKind::Unavailable, fault.message))?,
            ),
        };
        let means = Means::of(&path, args, site, (audit, Some(workspaces))).await?;
        let workshop = means.workshop(Arc::clone(&declared), desk.clone()).await?;
        let governor = Arc::new(DeclaredGovernor::new(declared).roles(site.roles.clone()));
        let workshop = RwLock::new(Arc::new(workshop));
        Ok(Self { path, governor, desk, workshop, means })
    }

    /// The tools as they are declared now.
    pub(crate) fn workshop(&self) -> Arc<Workshop> {
        Arc::clone(&self.workshop.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other tools and rules in place; gives those that were there.
    fn put(&self, workshop: Arc<Workshop>) -> Arc<Workshop> {
        self.governor.replace(Arc::clone(workshop.declared()));
        let mut place = self.workshop.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *place, workshop)
    }

    /// Reads what is declared now, and uses it from the next call on. If anything is wrong with it, what was there stays.
    pub(crate) async fn reload(&self, app: &App) -> Result<Vec<Change>, Problem> {
        let declared = read(self.path.clone()).await?;
        let changes = self.workshop().declared().changes_to(&declared);
        if changes.is_empty() {
            return Ok(changes);
        }
        let fresh = Arc::new(self.means.workshop(declared, self.desk.clone()).await?);
        let before = self.put(Arc::clone(&fresh));
        if let Err(problem) = house::ensure_agents(fresh.declared(), app).await {
            self.put(before);
            fresh.close().await;
            return Err(problem);
        }
        Ok(changes)
    }
}

impl Toolroom {
    /// Reads anew what was declared, where anything was; says it in one line.
    pub(crate) async fn reload(&self, app: &App) -> Result<String, Problem> {
        let Some(shop) = &self.shop else { return Ok("nothing is declared in files".to_owned()) };
        let path = shop.path.display();
        let changes = shop.reload(app).await.map_err(|problem| Problem {
            what: format!("{path} is not used, what was declared before stays: {}", problem.what),
            ..problem
        })?;
        let told: Vec<String> = changes.iter().map(ToString::to_string).collect();
        Ok(match told.is_empty() {
            true => format!("{path} was read again: nothing changed"),
            false => format!("{path} was read again: {}", told.join(", ")),
        })
    }
}

/// Files are read where waiting for a disk holds nobody up.
async fn read(path: PathBuf) -> Result<Arc<Declared>, Problem> {
    let reading = tokio::task::spawn_blocking(move || Declared::read(&path)).await;
    let read = reading.map_err(|error| Problem::new(ErrorKind::Bug, error.to_string()))?;
    let declared = read.map_err(|error| refused(&error))?;
    for rule in declared.loose_rules() {
        tracing::warn!("{rule}");
    }
    Ok(Arc::new(declared))
}

fn refused(error: &DeclareError) -> Problem {
    Problem::invalid(error.to_string())
        .help("`provost tool test --resources PATH` checks what is declared")
}
