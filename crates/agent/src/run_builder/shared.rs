//! Options for values that outlive a run.

use std::sync::Arc;

use provost_session::shared_state::{StateOwners, StateStore};
use serde_json::{Map, Value};

use super::RunBuilder;
use crate::shared_state::{Shared, SharedStateBackend};

impl<O: Send + 'static> RunBuilder<O> {
    /// Sets the user of the run, whose `user:` values it reads and writes.
    pub fn user(mut self, id: impl Into<String>) -> Self {
        self.options.shared.user = Some(id.into());
        self
    }

    /// Sets the store of shared values, which replaces the agent's store.
    pub fn shared_state(mut self, store: Arc<dyn StateStore>) -> Self {
        self.options.shared.store = Some(store);
        self
    }

    /// Sets the owners and the initial values of the shared state, for host programs that execute runs themselves.
    /// The journal stores changes, which it receives in [`RunStarted`](crate::run::RunStarted) and
    /// [`Feed::Noted`](crate::run::Feed).
    pub fn shared_values(mut self, owners: StateOwners, values: Map<String, Value>) -> Self {
        let keeper = SharedStateBackend::Journal(Arc::new(values));
        self.options.shared.bound = Some(Box::new(Shared { owners, keeper }));
        self
    }
}
