//! What a run is told about values that outlive it.

use std::sync::Arc;

use provost_session::shared_state::{StateOwners, StateStore};
use serde_json::{Map, Value};

use super::RunBuilder;
use crate::shared_state::{Keeper, Shared};

impl<O: Send + 'static> RunBuilder<O> {
    /// Says for whom it runs: whose `user:` values it sees and sets.
    pub fn user(mut self, id: impl Into<String>) -> Self {
        self.options.shared.user = Some(id.into());
        self
    }

    /// Keeps what outlives the run in a store, in place of the agent's.
    pub fn shared_state(mut self, store: Arc<dyn StateStore>) -> Self {
        self.options.shared.store = Some(store);
        self
    }

    /// Says whose shared values the run has and what they are when it begins; for programs that keep runs themselves. The
    /// journal stores what it hears of them in [`RunStarted`](crate::run::RunStarted) and [`Feed::Noted`](crate::run::Feed).
    pub fn shared_values(mut self, owners: StateOwners, values: Map<String, Value>) -> Self {
        let keeper = Keeper::Journal(Arc::new(values));
        self.options.shared.bound = Some(Box::new(Shared { owners, keeper }));
        self
    }
}
