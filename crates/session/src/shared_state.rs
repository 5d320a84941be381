//! Values of the state that outlive a run: of a conversation, of a user, of everybody.
//!
//! A run loads them when it begins and stores what it changed whenever a round of tools is over and when it ends. Names are
//! stored one by one, so that runs that change different ones never meet; of two that change the same one the last one wins.

#[cfg(any(test, feature = "test-support"))]
pub mod conformance;
mod memory;

use futures::future::BoxFuture;
use provost_core::{ErrorKind, StateChange, StateScope};
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
