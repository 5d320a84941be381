//! The declared tools of a process, which can be reloaded while it runs.
//!
//! Invariant: a call that has started uses the tool that it started with. A failed reload changes nothing.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::RwLock;
use provost_core::{Env, ErrorKind};
use provost_engine::Records;
use provost_redact::Redactor;
use provost_resource::{Change, ManifestError, ManifestPolicy, ResourceSet};
use provost_sandbox::{ContainerOptions, Launcher};
use provost_secret::SecretService;
use provost_tool::AuditSink;
use provost_tool_runtime::{CallbackRegistry, CommandAllowList};
use provost_workspace::conversation::ConversationWorkspaces;

use super::{ToolConfig, ToolDeps, ToolNetwork, secrets};
use crate::error::HostError;
use crate::registry::{ToolRegistry, ToolRegistryOptions};
use crate::wasm::ModuleDirs;

/// Declared tools with their policy.
pub struct DeclaredTools {
    /// Path of the manifests.
    pub path: PathBuf,
    /// Policy of the calls.
    pub governor: Arc<ManifestPolicy>,
    /// Registry of calls whose results are delivered later. `None` without a callback URL.
    pub callbacks: Option<CallbackRegistry>,
    current: RwLock<Arc<ToolRegistry>>,
    config: ToolRegistryConfig,
}

/// Configuration from which registries are built.
pub struct ToolRegistryConfig {
    modules: ModuleDirs,
    network: ToolNetwork,
    commands: Vec<String>,
    secrets: SecretService,
    redactor: Redactor,
    audit: Arc<dyn AuditSink>,
    container: Option<ContainerOptions>,
    workspaces: Option<ConversationWorkspaces>,
}

/// Returns the directory of WASM modules in a data directory.
pub fn modules_dir(data: &Path) -> PathBuf {
    data.join("wasm")
}

impl ToolRegistryConfig {
    /// Creates the configuration. Module files are in the directory of the manifests.
    pub async fn new(
        files: &Path,
        config: &ToolConfig,
        deps: &ToolDeps<'_>,
        workspaces: Option<ConversationWorkspaces>,
    ) -> Result<Self, HostError> {
        let files = if files.is_dir() { Some(files) } else { files.parent() };
        let modules =
            ModuleDirs { files: files.map(Path::to_owned), data: Some(modules_dir(deps.dir)) };
        Ok(Self {
            modules,
            network: config.network,
            commands: config.commands.clone(),
            secrets: secrets(config, deps).await?,
            redactor: deps.redactor.clone(),
            audit: Arc::new(Records::new(deps.store.clone())),
            container: config.container.clone(),
            workspaces,
        })
    }

    /// Builds the registry of a set of manifests.
    pub async fn build(
        &self,
        declared: Arc<ResourceSet>,
        callbacks: Option<CallbackRegistry>,
    ) -> Result<ToolRegistry, HostError> {
        let options = ToolRegistryOptions {
            network: self.network.policy(),
            allow_private_tools: self.network != ToolNetwork::Public,
            commands: CommandAllowList::of(self.commands.iter().cloned()),
            launcher: Launcher::own().ok(),
            modules: self.modules.clone(),
            container: self.container.clone(),
            workspaces: self.workspaces.clone(),
            audit: Some(Arc::clone(&self.audit)),
            callbacks,
            secrets: self.secrets.clone(),
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
        config: &ToolConfig,
        registry_config: ToolRegistryConfig,
    ) -> Result<Self, HostError> {
        let path =
            std::path::absolute(path).map_err(|error| HostError::io("the manifests", &error))?;
        let declared = load(path.clone()).await?;
        let callbacks = match &config.callbacks {
            None => None,
            Some(base) => Some(
                CallbackRegistry::with_random_key(base.clone())
                    .map_err(|fault| HostError::new(ErrorKind::Unavailable, fault.message))?,
            ),
        };
        let registry = registry_config.build(Arc::clone(&declared), callbacks.clone()).await?;
        let governor = Arc::new(ManifestPolicy::new(declared).roles(config.roles.clone()));
        let current = RwLock::new(Arc::new(registry));
        Ok(Self { path, governor, callbacks, current, config: registry_config })
    }

    /// Returns the current registry.
    pub fn current(&self) -> Arc<ToolRegistry> {
        Arc::clone(&self.current.read())
    }

    /// Replaces the tools and the policy. Returns the previous registry.
    fn replace(&self, registry: Arc<ToolRegistry>) -> Arc<ToolRegistry> {
        self.governor.replace(Arc::clone(registry.declared()));
        let mut current = self.current.write();
        std::mem::replace(&mut *current, registry)
    }

    /// Reloads the manifests. The next call uses them. If they are invalid, or if `apply` returns an error, the
    /// previous manifests stay active.
    pub async fn reload<E: From<HostError>>(
        &self,
        apply: impl AsyncFnOnce(&ResourceSet) -> Result<(), E>,
    ) -> Result<Vec<Change>, E> {
        let declared = load(self.path.clone()).await?;
        let changes = self.current().declared().diff(&declared);
        if changes.is_empty() {
            return Ok(changes);
        }
        let new = Arc::new(self.config.build(declared, self.callbacks.clone()).await?);
        let previous = self.replace(Arc::clone(&new));
        if let Err(problem) = apply(new.declared()).await {
            self.replace(previous);
            new.close().await;
            return Err(problem);
        }
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
