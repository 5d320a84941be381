//! Reads of resource sets.

use crate::table::governance::resource_set::{self, ResourceSetVersionRow};
use crate::{Store, StoreError};

/// Returns the documents of a set, as JSON. `None` if the database does not have the set.
pub async fn body(store: &Store, hash: &str) -> Result<Option<String>, StoreError> {
    let hash = hash.to_owned();
    let found = store.read(move |tx| resource_set::find(tx, &hash)).await?;
    Ok(found.map(|row| row.body))
}

/// Returns the newest version. `None` if no set was ever applied.
pub async fn current(store: &Store) -> Result<Option<ResourceSetVersionRow>, StoreError> {
    store.read(resource_set::newest).await
}
