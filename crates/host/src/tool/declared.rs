//! The declared tools of a process, which can be reloaded while it runs.
//!
//! Invariant: a call that has started uses the tool that it started with. A failed reload changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use provost_core::{Env, ErrorKind};
use provost_engine::Records;
use provost_redact::Redactor;
use provost_resource::{Change, ManifestError, ResourceSet};
use provost_sandbox::Launcher;
use provost_secret::SecretService;
use provost_store::Store;
use provost_tool_runtime::{CallbackRegistry, CommandAllowList};
use provost_workspace::conversation::ConversationWorkspaces;

use tokio::sync::OnceCell;

use super::{ToolConfig, ToolDeps, ToolNetwork, secrets};
use crate::error::HostError;
use crate::registry::{ToolRegistry, ToolRegistryOptions};
use crate::resources::{ResourceSets, StoredPolicy};
use crate::wasm::ModuleDirs;

/// Manifests of this process with their tools.
pub struct DeclaredTools {
    /// Path of the manifests.
    pub path: PathBuf,
    current: RwLock<Arc<ToolRegistry>>,
    sets: Arc<ResourceSets>,
    policy: Arc<StoredPolicy>,
}

/// Configuration from which registries are built.
pub struct ToolRegistryConfig {
    modules: ModuleDirs,
    config: ToolConfig,
    dir: PathBuf,
    store: Store,
    redactor: Redactor,
    workspaces: Option<ConversationWorkspaces>,
    callbacks: Option<CallbackRegistry>,
    secrets: OnceCell<SecretService>,
}

/// Returns the directory of WASM modules in a data directory.
pub fn modules_dir(data: &Path) -> PathBuf {
    data.join("wasm")
}

impl ToolRegistryConfig {
    /// Creates the configuration. Module files are in the directory of the manifests.
    pub fn new(
        config: &ToolConfig,
        deps: &ToolDeps<'_>,
        workspaces: Option<ConversationWorkspaces>,
        callbacks: Option<CallbackRegistry>,
    ) -> Self {
        let files = config.manifests.as_deref();
        let files = files.and_then(|path| if path.is_dir() { Some(path) } else { path.parent() });
        let modules =
            ModuleDirs { files: files.map(Path::to_owned), data: Some(modules_dir(deps.dir)) };
        Self {
            modules,
            config: config.clone(),
            dir: deps.dir.to_owned(),
            store: deps.store.clone(),
            redactor: deps.redactor.clone(),
            workspaces,
            callbacks,
            secrets: OnceCell::new(),
        }
    }

    /// Builds the registry of a set of manifests.
    pub async fn build(&self, declared: Arc<ResourceSet>) -> Result<ToolRegistry, HostError> {
        let deps = ToolDeps { dir: &self.dir, store: &self.store, redactor: &self.redactor };
        let secrets = self.secrets.get_or_try_init(|| secrets(&self.config, &deps)).await?;
        let network = self.config.network;
        let options = ToolRegistryOptions {
            network: network.policy(),
            allow_private_tools: network != ToolNetwork::Public,
            commands: CommandAllowList::of(self.config.commands.iter().cloned()),
            launcher: Launcher::own().ok(),
            modules: self.modules.clone(),
            container: self.config.container.clone(),
            workspaces: self.workspaces.clone(),
            audit: Some(Arc::new(Records::new(self.store.clone()))),
            callbacks: self.callbacks.clone(),
            secrets: secrets.clone(),
            redactor: self.redactor.clone(),
            env: Env::system(),
        };
        ToolRegistry::open(declared, options).await.map_err(|error| manifest_error(&error))
    }
}

impl DeclaredTools {
    /// Loads the manifests and builds their tools.
    pub(super) async fn open(
        path: &Path,
        sets: Arc<ResourceSets>,
        policy: Arc<StoredPolicy>,
    ) -> Result<Self, HostError> {
        let path =
            std::path::absolute(path).map_err(|error| HostError::io("the manifests", &error))?;
        let declared = load(path.clone()).await?;
        let registry = sets.build(declared).await?;
        sets.add(&registry);
        policy.replace(registry.declared());
        Ok(Self { path, current: RwLock::new(registry), sets, policy })
    }

    /// Returns the current registry.
    pub fn current(&self) -> Arc<ToolRegistry> {
        Arc::clone(&self.current.read())
    }

    /// Reloads the manifests and stores them with `apply`. The next call uses their rules. If they are invalid, or if
    /// `apply` returns an error, the previous manifests stay active.
    pub async fn reload<E: From<HostError>>(
        &self,
        apply: impl AsyncFnOnce(&ResourceSet) -> Result<(), E>,
    ) -> Result<Vec<Change>, E> {
        let declared = load(self.path.clone()).await?;
        let changes = self.current().declared().diff(&declared);
        if changes.is_empty() {
            return Ok(changes);
        }
        let new = self.sets.build(declared).await?;
        if let Err(problem) = apply(new.declared()).await {
            new.close().await;
            return Err(problem);
        }
        self.sets.add(&new);
        self.policy.replace(new.declared());
        *self.current.write() = new;
        Ok(changes)
    }
}

/// Loads manifests on a thread that can block.
async fn load(path: PathBuf) -> Result<Arc<ResourceSet>, HostError> {
    let task = tokio::task::spawn_blocking(move || ResourceSet::read(&path)).await;
    let loaded = task.map_err(|error| HostError::new(ErrorKind::Bug, error.to_string()))?;
    let declared = loaded.map_err(|error| manifest_error(&error))?;
    for rule in declared.unmatched_permissions() {
        tracing::warn!("{rule}");
    }
    Ok(Arc::new(declared))
}

fn manifest_error(error: &ManifestError) -> HostError {
    HostError::invalid(error.to_string())
        .hint("`provost tool test --manifests PATH` checks the manifests")
}
