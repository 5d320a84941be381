//! The shared state of one run: its owners and its store.

use std::sync::Arc;

use provost_session::shared_state::{StateOwners, StateStore};
use provost_tool::Scopes;
use serde_json::{Map, Value};

/// The shared values of one run.
#[derive(Clone)]
pub(crate) struct Shared {
    pub(crate) owners: StateOwners,
    pub(crate) keeper: Keeper,
}

/// Who keeps the shared values of a run.
#[derive(Clone)]
pub(crate) enum Keeper {
    /// A store, which is asked and told by the driver.
    Store(Arc<dyn StateStore>),
    /// The run's journal: it writes them with the steps that change them. These were there when the run began.
    Journal(Arc<Map<String, Value>>),
}

/// What a run is told about shared values.
#[derive(Clone, Default)]
pub(crate) struct SharedOptions {
    /// For whom it runs.
    pub(crate) user: Option<String>,
    /// Where they are kept, in place of the agent's own store.
    pub(crate) store: Option<Arc<dyn StateStore>>,
    /// The shared values that were given to the run: they win over those that are stored.
    pub(crate) given: Vec<String>,
    /// What came of it, once the run is put together.
    pub(crate) bound: Option<Box<Shared>>,
}

impl SharedOptions {
    /// Puts together what the run and its agent say; `session` is the conversation that is stored.
    pub(crate) fn bind(&mut self, own: Option<&Arc<dyn StateStore>>, session: Option<&str>) {
        let store = self.store.as_ref().or(own);
        if let (None, Some(store)) = (&self.bound, store) {
            let (session, user) = (session.map(ToOwned::to_owned), self.user.clone());
            let owners = StateOwners { session, user };
            let keeper = Keeper::Store(Arc::clone(store));
            self.bound = Some(Box::new(Shared { owners, keeper }));
        }
    }

    /// The same for a run below: for the same user, in no conversation that is stored.
    pub(crate) fn for_child(&self) -> Self {
        let store = match self.bound.as_deref() {
            Some(Shared { keeper: Keeper::Store(store), .. }) => Some(Arc::clone(store)),
            _ => None,
        };
        Self { user: self.user.clone(), store, ..Self::default() }
    }

    /// The scopes in which the run can leave values.
    pub(crate) fn scopes(&self) -> Scopes {
        let Some(Shared { owners, .. }) = self.bound.as_deref() else { return Scopes::default() };
        Scopes { session: owners.session.is_some(), user: owners.user.is_some(), app: true }
    }
}
