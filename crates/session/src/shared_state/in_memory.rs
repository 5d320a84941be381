//! A shared state store in the memory of this process.

use std::collections::HashMap;

use futures::FutureExt;
use futures::future::ready;
use parking_lot::Mutex;
use provost_core::{StateChange, StateScope};
use serde_json::{Map, Value};

use super::{StateFuture, StateOwners, StateStore};

/// Values by scope and owner.
type ValuesByOwner = HashMap<(StateScope, String), Map<String, Value>>;

/// Shared state store in the memory of this process.
#[derive(Debug, Default)]
pub struct InMemoryStateStore(Mutex<ValuesByOwner>);

impl InMemoryStateStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }
}

impl StateStore for InMemoryStateStore {
    fn load<'a>(&'a self, owners: &'a StateOwners) -> StateFuture<'a, Map<String, Value>> {
        let stored = self.0.lock();
        let mut found = Map::new();
        for (scope, owner) in owners.all() {
            let values = stored.get(&(scope, owner.to_owned()));
            for (inner, value) in values.into_iter().flatten() {
                found.insert(scope.name(inner), value.clone());
            }
        }
        ready(Ok(found)).boxed()
    }

    fn commit<'a>(
        &'a self,
        owners: &'a StateOwners,
        changes: &'a [StateChange],
    ) -> StateFuture<'a, ()> {
        let mut stored = self.0.lock();
        for StateChange { name, value } in changes {
            let (scope, inner) = StateScope::split(name);
            let Some(owner) = owners.owner(scope) else { continue };
            let values = stored.entry((scope, owner.to_owned())).or_default();
            match value {
                Some(value) => values.insert(inner.to_owned(), value.clone()),
                None => values.remove(inner),
            };
        }
        stored.retain(|_, values| !values.is_empty());
        ready(Ok(())).boxed()
    }

    fn delete_owner<'a>(&'a self, scope: StateScope, owner: &'a str) -> StateFuture<'a, u64> {
        let removed = self.0.lock().remove(&(scope, owner.to_owned()));
        ready(Ok(removed.map_or(0, |values| values.len() as u64))).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_does_what_every_store_of_shared_values_does() {
        super::super::conformance::run(&InMemoryStateStore::new()).await.unwrap();
    }
}
