//! Values of the state that outlive a run: of a conversation, of a user, of everybody.
//!
//! A run loads them when it begins and stores what it changed whenever a round of tools is over and when it ends. Names are
//! stored one by one, so that runs that change different ones never meet; of two that change the same one the last one wins.

#[cfg(any(test, feature = "test-support"))]
pub mod conformance;
mod memory;

use std::sync::Arc;

use futures::future::BoxFuture;
use provost_core::{ErrorKind, StateChange, StateScope};
use provost_tool::Scopes;
use serde_json::{Map, Value};

pub use self::memory::MemoryState;

/// Whose values a run sees. Those of [`StateScope::App`] belong to the store itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateOwners {
    /// The conversation, if the run is part of one that is stored.
    pub session: Option<String>,
    /// For whom it runs, if that is known.
    pub user: Option<String>,
}

impl StateOwners {
    /// Who owns the values of a scope; `None` if the run has none there.
    pub fn owner(&self, scope: StateScope) -> Option<&str> {
        match scope {
            StateScope::Run => None,
            StateScope::Session => self.session.as_deref(),
            StateScope::User => self.user.as_deref(),
            StateScope::App => Some(""),
        }
    }

    /// Each scope that outlives a run and has an owner.
    pub fn all(&self) -> impl Iterator<Item = (StateScope, &str)> {
        StateScope::SHARED.into_iter().filter_map(|scope| Some((scope, self.owner(scope)?)))
    }

    /// The scopes in which such a run can leave values.
    pub fn scopes(&self) -> Scopes {
        Scopes { session: self.session.is_some(), user: self.user.is_some(), app: true }
    }
}

/// Why shared values could not be read or written.
#[derive(Debug, thiserror::Error)]
#[error("shared state: {message}")]
pub struct StateError {
    /// What was tried, and what went wrong.
    pub message: String,
    /// Why.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl StateError {
    /// The shared kind.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Unavailable
    }
}

/// What a store's call gives.
pub type StateFuture<'a, T> = BoxFuture<'a, Result<T, StateError>>;

/// Where shared values are kept.
pub trait StateStore: Send + Sync + 'static {
    /// Everything that these owners have, under names with their scope.
    fn load<'a>(&'a self, owners: &'a StateOwners) -> StateFuture<'a, Map<String, Value>>;

    /// Sets and takes away values, all of them or none. A change in a scope without an owner is left out.
    fn commit<'a>(
        &'a self,
        owners: &'a StateOwners,
        changes: &'a [StateChange],
    ) -> StateFuture<'a, ()>;

    /// Takes away everything that one owner has; how many values it were.
    fn forget<'a>(&'a self, scope: StateScope, owner: &'a str) -> StateFuture<'a, u64>;
}

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
        self.bound.as_deref().map(|shared| shared.owners.scopes()).unwrap_or_default()
    }
}
