//! Options for values that outlive a run.

use std::sync::Arc;

use provost_session::shared_state::StateStore;

use super::RunBuilder;

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
}
