//! Applies manifests: when the process starts, and when they are loaded again.

use std::sync::Arc;

use provost_engine::{Engine, ResourceDocument};
use provost_host::tool::ToolProvider;
use provost_resource::ResourceSet;

use super::to_cli_error;
use crate::error::CliError;

/// The manifests of a process.
pub(crate) struct Manifests {
    pub(super) tools: Arc<ToolProvider>,
    pub(super) engine: Engine,
}

impl Manifests {
    /// Makes the manifests the current set of the database, and stores the agents that they declare.
    pub(crate) async fn apply(&self) -> Result<(), CliError> {
        match &self.tools.declared {
            Some(declared) => self.store(declared.current().declared()).await,
            None => Ok(()),
        }
    }

    /// Reads the manifests again and returns the changes as one line of text. The old manifests stay active after an
    /// error.
    pub(crate) async fn reload(&self) -> Result<String, CliError> {
        let Some(declared) = &self.tools.declared else {
            return Ok("no manifests are configured".to_owned());
        };
        let path = declared.path.display();
        let changed = declared.reload(async |new| self.store(new).await).await;
        let changes = changed.map_err(|problem: CliError| CliError {
            message: format!(
                "cannot load {path}, the previous manifests stay active: {}",
                problem.message
            ),
            ..problem
        })?;
        let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
        Ok(match changes.is_empty() {
            true => format!("reloaded {path}: no changes"),
            false => format!("reloaded {path}: {}", changes.join(", ")),
        })
    }

    /// Makes a set the current one of the database, with its agents.
    async fn store(&self, set: &ResourceSet) -> Result<(), CliError> {
        let agents = set.agents().cloned().collect();
        let stored = self.engine.apply_resources(document(set), agents).await;
        stored.map_err(|error| to_cli_error(&error))
    }

    /// Stores the manifests for the agents of this process only. Returns the hash of their set. `None` without
    /// manifests.
    pub(crate) async fn store_own(&self) -> Result<Option<String>, CliError> {
        let Some(declared) = &self.tools.declared else { return Ok(None) };
        let document = document(declared.current().declared());
        let hash = document.hash.clone();
        let stored = self.engine.store_resources(document).await;
        stored.map_err(|error| to_cli_error(&error))?;
        Ok(Some(hash))
    }
}

fn document(set: &ResourceSet) -> ResourceDocument {
    let body = set.to_document();
    ResourceDocument { hash: ResourceSet::hash_of(&body), body }
}
