//! Shared state: values of a session, a user or the whole application that persist across runs.
//!
//! A run loads the values at its start, and stores its changes after each round of tool calls and at its end. Each
//! name is stored separately, so runs that change different names do not conflict. If two runs change the same name,
//! the last write wins.

#[cfg(any(test, feature = "test-support"))]
pub mod conformance;
mod in_memory;

use futures::future::BoxFuture;
use provost_core::{ErrorKind, StateChange, StateScope};
use serde_json::{Map, Value};

pub use self::in_memory::InMemoryStateStore;

/// Owners of the values that a run can access. The values of [`StateScope::App`] need no owner.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StateOwners {
    /// Id of the session; `None` if the run has no stored session.
    pub session: Option<String>,
    /// Id of the user; `None` if the user is not known.
    pub user: Option<String>,
}

impl StateOwners {
    /// Returns the owner of the values of a scope; `None` if the run has no access to the scope.
    pub fn owner(&self, scope: StateScope) -> Option<&str> {
        match scope {
            StateScope::Run => None,
            StateScope::Session => self.session.as_deref(),
            StateScope::User => self.user.as_deref(),
            StateScope::App => Some(""),
        }
    }

    /// Returns all persistent scopes that have an owner.
    pub fn all(&self) -> impl Iterator<Item = (StateScope, &str)> {
        StateScope::SHARED.into_iter().filter_map(|scope| Some((scope, self.owner(scope)?)))
    }
}

/// Error of a shared state store.
#[derive(Debug, thiserror::Error)]
#[error("shared state: {message}")]
pub struct StateError {
    /// Description of the failure.
    pub message: String,
    /// Cause of the failure.
    #[source]
    pub source: Option<Box<dyn std::error::Error + Send + Sync>>,
}

impl StateError {
    /// Returns the category that decides how callers handle the error.
    pub fn kind(&self) -> ErrorKind {
        ErrorKind::Unavailable
    }
}

/// Future that the methods of [`StateStore`] return.
pub type StateFuture<'a, T> = BoxFuture<'a, Result<T, StateError>>;

/// Storage of shared state.
pub trait StateStore: Send + Sync + 'static {
    /// Returns all values of the owners. The keys are names with their scope.
    fn load<'a>(&'a self, owners: &'a StateOwners) -> StateFuture<'a, Map<String, Value>>;

    /// Sets and removes values in one transaction. Changes in a scope without an owner are ignored.
    fn commit<'a>(
        &'a self,
        owners: &'a StateOwners,
        changes: &'a [StateChange],
    ) -> StateFuture<'a, ()>;

    /// Deletes all values of an owner and returns their number.
    fn delete_owner<'a>(&'a self, scope: StateScope, owner: &'a str) -> StateFuture<'a, u64>;
}
