//! The dependencies of an engine: everything it works with exists before it does.

use std::collections::HashMap;
use std::sync::Arc;

use provost_core::Env;
use provost_store::Store;

use crate::attempt::workspace::Workspaces;
use crate::engine::Agents;
use crate::outbound::delivery::DeliveryAdapter;

/// What an engine is built from. [`EngineDeps::new`] takes what every engine needs; the other fields start empty.
pub struct EngineDeps {
    /// The database.
    pub store: Store,
    /// Builds the agents of runs.
    pub agents: Arc<dyn Agents>,
    /// The clock and the source of ids.
    pub env: Env,
    /// The channels that answers are sent over, by the names that routings use.
    pub channels: HashMap<String, Arc<dyn DeliveryAdapter>>,
    /// Knows whether the workspace of a resumed run is intact. Without it every workspace counts as intact.
    pub workspaces: Option<Arc<dyn Workspaces>>,
}

impl EngineDeps {
    /// The dependencies of an engine that nothing outside the database listens to.
    pub fn new(store: Store, agents: impl Agents, env: Env) -> Self {
        Self { store, agents: Arc::new(agents), env, channels: HashMap::new(), workspaces: None }
    }
}
