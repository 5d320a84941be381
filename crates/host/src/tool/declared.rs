//! What was declared in files, as it is at the moment: it can be read anew while the program runs.
//!
//! Invariant: whoever has begun with a tool keeps it as it was; what is refused changes nothing.

use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use provost_core::{Env, ErrorKind};
use provost_redact::Redactor;
use provost_resource::{Change, DeclareError, Declared, DeclaredGovernor};
use provost_sandbox::{ContainerOptions, Launcher};
use provost_secret::Secrets;
use provost_tool::AuditSink;
use provost_tool_runtime::{CallbackDesk, CommandAllowList};
use provost_workspace::conversation::Workspaces;

use super::{ToolConfig, ToolDeps, ToolNetwork, secrets};
use crate::error::HostError;
use crate::module::ModulePlaces;
use crate::records::Records;
use crate::workshop::{Workshop, WorkshopOptions};

/// What was declared.
pub struct DeclaredTools {
    /// From where.
    pub path: PathBuf,
    /// Who decides about calls.
    pub governor: Arc<DeclaredGovernor>,
    /// Where answers that come later are handed in.
    pub desk: Option<CallbackDesk>,
    workshop: RwLock<Arc<Workshop>>,
    registry: ToolRegistryConfig,
}

/// What workshops are made with.
pub struct ToolRegistryConfig {
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
pub fn modules_dir(data: &Path) -> PathBuf {
    data.join("wasm")
}

impl ToolRegistryConfig {
    /// What the arguments say. Modules are files beside what was declared.
    pub async fn new(
        files: &Path,
        config: &ToolConfig,
        deps: &ToolDeps<'_>,
        workspaces: Option<Workspaces>,
    ) -> Result<Self, HostError> {
        let files = if files.is_dir() { Some(files) } else { files.parent() };
        let modules =
            ModulePlaces { files: files.map(Path::to_owned), kept: Some(modules_dir(deps.dir)) };
        Ok(Self {
            modules,
            network: config.network,
            commands: config.commands.clone(),
            secrets: secrets(config, deps).await?,
            redactor: deps.redactor.clone(),
            audit: Arc::new(Records::new(deps.store.clone(), Env::system())),
            container: config.container.clone(),
            workspaces,
        })
    }

    /// Makes tools of what was declared.
    pub async fn workshop(
        &self,
        declared: Arc<Declared>,
        desk: Option<CallbackDesk>,
    ) -> Result<Workshop, HostError> {
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

impl DeclaredTools {
    /// Reads what was declared and sets it up.
    pub(super) async fn open(
        path: &Path,
        config: &ToolConfig,
        registry: ToolRegistryConfig,
    ) -> Result<Self, HostError> {
        let path =
            std::path::absolute(path).map_err(|error| HostError::io("the resources", &error))?;
        let declared = read(path.clone()).await?;
        let desk = match &config.callbacks {
            None => None,
            Some(base) => Some(
                CallbackDesk::with_random_key(base.clone())
                    .map_err(|fault| HostError::new(ErrorKind::Unavailable, fault.message))?,
            ),
        };
        let workshop = registry.workshop(Arc::clone(&declared), desk.clone()).await?;
        let governor = Arc::new(DeclaredGovernor::new(declared).roles(config.roles.clone()));
        let workshop = RwLock::new(Arc::new(workshop));
        Ok(Self { path, governor, desk, workshop, registry })
    }

    /// The tools as they are declared now.
    pub fn workshop(&self) -> Arc<Workshop> {
        Arc::clone(&self.workshop.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts other tools and rules in place; gives those that were there.
    fn put(&self, workshop: Arc<Workshop>) -> Arc<Workshop> {
        self.governor.replace(Arc::clone(workshop.declared()));
        let mut place = self.workshop.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *place, workshop)
    }

    /// Reads the declarations again and applies them from the next call on. If they are wrong, or if `apply` fails with them,
    /// those of before stay.
    pub async fn reload<E: From<HostError>>(
        &self,
        apply: impl AsyncFnOnce(&Declared) -> Result<(), E>,
    ) -> Result<Vec<Change>, E> {
        let declared = read(self.path.clone()).await?;
        let changes = self.workshop().declared().changes_to(&declared);
        if changes.is_empty() {
            return Ok(changes);
        }
        let fresh = Arc::new(self.registry.workshop(declared, self.desk.clone()).await?);
        let before = self.put(Arc::clone(&fresh));
        if let Err(problem) = apply(fresh.declared()).await {
            self.put(before);
            fresh.close().await;
            return Err(problem);
        }
        Ok(changes)
    }
}

/// Files are read where waiting for a disk holds nobody up.
async fn read(path: PathBuf) -> Result<Arc<Declared>, HostError> {
    let reading = tokio::task::spawn_blocking(move || Declared::read(&path)).await;
    let read = reading.map_err(|error| HostError::new(ErrorKind::Bug, error.to_string()))?;
    let declared = read.map_err(|error| refused(&error))?;
    for rule in declared.loose_rules() {
        tracing::warn!("{rule}");
    }
    Ok(Arc::new(declared))
}

fn refused(error: &DeclareError) -> HostError {
    HostError::invalid(error.to_string())
        .hint("`provost tool test --resources PATH` checks what is declared")
}
