//! Applies manifests: when the process starts, and when they are loaded again.

use std::sync::Arc;

use provost_core::id::name::Namespace;
use provost_engine::Engine;
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
    /// Creates the declared agents, and updates those whose declaration changed.
    pub(crate) async fn apply(&self) -> Result<(), CliError> {
        match &self.tools.declared {
            Some(declared) => self.put_agents(declared.current().declared()).await,
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
        let changed = declared.reload(async |new| self.put_agents(new).await).await;
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

    async fn put_agents(&self, declared: &ResourceSet) -> Result<(), CliError> {
        for agent in declared.agents() {
            let invalid = |error: &dyn std::fmt::Display| {
                CliError::invalid(format!("agent `{}`: {error}", agent.name))
            };
            let namespace: Namespace = agent.namespace.parse().map_err(|error| invalid(&error))?;
            let title = Some(agent.title.as_str()).filter(|title| !title.is_empty());
            let spec = agent.spec.clone().or_default_for(&agent.name);
            let stored = self.engine.put_agent(&namespace, &agent.name, title, spec).await;
            stored.map_err(|error| to_cli_error(&error))?;
        }
        Ok(())
    }
}
