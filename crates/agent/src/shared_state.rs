//! The shared state of one run: its owners and its store.

use std::sync::Arc;

use provost_session::shared_state::{StateOwners, StateStore};
use provost_tool::StateScopes;
use serde_json::{Map, Value};

/// The shared state of one run.
#[derive(Clone)]
pub(crate) struct BoundSharedState {
    pub(crate) owners: StateOwners,
    pub(crate) keeper: SharedStateBackend,
}

/// The backend that stores the shared values of a run.
#[derive(Clone)]
pub(crate) enum SharedStateBackend {
    /// A store, which the driver reads and writes.
    Store(Arc<dyn StateStore>),
    /// The run's journal, which stores changes together with the steps that make them. The map holds the values at
    /// the start of the run.
    Journal(Arc<Map<String, Value>>),
}

/// The shared state options of a run.
#[derive(Clone, Default)]
pub(crate) struct SharedStateOptions {
    /// The user whose `user:` values the run reads and writes.
    pub(crate) user: Option<String>,
    /// The store of the shared values. `None` uses the agent's store.
    pub(crate) store: Option<Arc<dyn StateStore>>,
    /// Names of the shared values that the caller set for the run: they override stored values.
    pub(crate) given: Vec<String>,
    /// The resolved shared state. `None` until the run is prepared, and if it has no store.
    pub(crate) bound: Option<Box<BoundSharedState>>,
}

impl SharedStateOptions {
    /// Resolves the store from the options of the run and its agent. Without a store, the run has no shared state.
    /// `session` is the id of the stored conversation.
    pub(crate) fn bind(&mut self, own: Option<&Arc<dyn StateStore>>, session: Option<&str>) {
        let store = self.store.as_ref().or(own);
        if let (None, Some(store)) = (&self.bound, store) {
            let (session, user) = (session.map(ToOwned::to_owned), self.user.clone());
            let owners = StateOwners { session, user };
            let keeper = SharedStateBackend::Store(Arc::clone(store));
            self.bound = Some(Box::new(BoundSharedState { owners, keeper }));
        }
    }

    /// Uses values that an engine loaded. The journal of the engine stores their changes.
    pub(crate) fn bind_journal(&mut self, owners: StateOwners, values: Map<String, Value>) {
        let keeper = SharedStateBackend::Journal(Arc::new(values));
        self.bound = Some(Box::new(BoundSharedState { owners, keeper }));
    }

    /// Returns the options of a child run: the same user and store, without a session.
    pub(crate) fn for_child(&self) -> Self {
        let store = match self.bound.as_deref() {
            Some(BoundSharedState { keeper: SharedStateBackend::Store(store), .. }) => {
                Some(Arc::clone(store))
            }
            _ => None,
        };
        Self { user: self.user.clone(), store, ..Self::default() }
    }

    /// Returns the scopes to which the run can write.
    pub(crate) fn scopes(&self) -> StateScopes {
        let Some(BoundSharedState { owners, .. }) = self.bound.as_deref() else {
            return StateScopes::default();
        };
        StateScopes { session: owners.session.is_some(), user: owners.user.is_some(), app: true }
    }
}
