//! Resource sets: the documents of manifests, which runs pin.

use provost_core::id::name::Namespace;
use provost_core::lifecycle::RequestError;
use provost_core::resource::DeclaredAgent;
use provost_store::table::governance::resource_set;

use crate::engine::Engine;
use crate::error::EngineError;

/// A set of resources to store.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourceDocument {
    /// Hash of the body.
    pub hash: String,
    /// The documents, as JSON.
    pub body: String,
}

impl Engine {
    /// Stores a set of resources. Only agents that name it use it.
    pub async fn store_resources(&self, document: ResourceDocument) -> Result<(), EngineError> {
        let write = self.inner.store.write(move |tx| {
            Ok::<_, EngineError>(resource_set::put(tx, &document.hash, &document.body)?)
        });
        write.await
    }

    /// Stores a set of resources with its agents and makes it the current one. Runs that were submitted before keep
    /// their set.
    pub async fn apply_resources(
        &self,
        document: ResourceDocument,
        agents: Vec<DeclaredAgent>,
    ) -> Result<(), EngineError> {
        let write = self.inner.store.write(move |tx| {
            resource_set::put(tx, &document.hash, &document.body)?;
            resource_set::apply(tx, &document.hash)?;
            for agent in &agents {
                let namespace: Namespace = agent.namespace.parse().map_err(|error| {
                    let problem = format!("agent `{}`: {error}", agent.name);
                    RequestError::invalid("agent.namespace", problem, "correct its manifest")
                })?;
                let title = Some(agent.title.as_str()).filter(|title| !title.is_empty());
                let spec = agent.spec.clone().or_default_for(&agent.name);
                super::put(tx, &namespace, &agent.name, title, &spec)?;
            }
            Ok::<_, EngineError>(())
        });
        write.await
    }
}
