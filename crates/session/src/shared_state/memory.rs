//! Shared values in memory.

use std::collections::HashMap;

use futures::FutureExt;
use futures::future::ready;
use parking_lot::Mutex;
use provost_core::{StateChange, StateScope};
use serde_json::{Map, Value};

use super::{StateFuture, StateOwners, StateStore};

/// The values of one owner.
type Owned = HashMap<(StateScope, String), Map<String, Value>>;

/// Shared values that end with the process.
#[derive(Debug, Default)]
pub struct MemoryState(Mutex<Owned>);

impl MemoryState {
    /// Nothing stored yet.
    pub fn new() -> Self {
        Self::default()
    }
}

impl StateStore for MemoryState {
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

    fn forget<'a>(&'a self, scope: StateScope, owner: &'a str) -> StateFuture<'a, u64> {
        let gone = self.0.lock().remove(&(scope, owner.to_owned()));
        ready(Ok(gone.map_or(0, |values| values.len() as u64))).boxed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn it_does_what_every_store_of_shared_values_does() {
        super::super::conformance::run(&MemoryState::new()).await.unwrap();
    }
}
