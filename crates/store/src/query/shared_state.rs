//! Reads of shared state.

use provost_core::StateScope;
use provost_core::id::name::Namespace;

use crate::Store;
use crate::query::QueryError;
use crate::query::page::PAGE_MAX;
use crate::table::state::shared_state::{self, SharedStateRow, StateOwner};

/// Returns the values of an owner, sorted by name, after the name `after`. The owner is a session, a user or, for
/// values of the application, empty.
pub async fn list(
    store: &Store,
    namespace: &Namespace,
    scope: StateScope,
    owner: &str,
    after: Option<&str>,
    limit: u64,
) -> Result<Vec<SharedStateRow>, QueryError> {
    let (namespace, owner) = (namespace.clone(), owner.to_owned());
    let after = after.map(ToOwned::to_owned);
    let limit = limit.clamp(1, PAGE_MAX);
    let read = store.read(move |tx| {
        let (namespace, scope) = (namespace.as_str(), scope.as_str());
        let owner = StateOwner { namespace, scope, id: &owner };
        shared_state::list(tx, owner, after.as_deref(), limit)
    });
    Ok(read.await?)
}
