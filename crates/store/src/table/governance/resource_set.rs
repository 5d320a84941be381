//! Resource sets: the documents of manifests, by the hash of their content. A set never changes, so it needs no lock.

use provost_core::Timestamp;

use crate::{StoreError, Tx, params};

table! {
    /// A set of resources.
    ResourceSetRow in "resource_set" {
        /// Hash of the body.
        hash: String,
        /// The documents, as JSON.
        body: String,
        /// Time of creation.
        created: Timestamp,
    }
}

table! {
    /// An application of a set. The newest version is current.
    ResourceSetVersionRow in "resource_set_version" {
        /// Number of the version, starting at 1.
        version: u64,
        /// Hash of the set.
        hash: String,
        /// Time of the application.
        applied: Timestamp,
    }
}

/// Stores a set, unless it exists.
pub fn put(tx: &mut Tx<'_>, hash: &str, body: &str) -> Result<(), StoreError> {
    let row = ResourceSetRow { hash: hash.to_owned(), body: body.to_owned(), created: tx.now() };
    row.insert_new(tx).map(drop)
}

/// Makes a stored set the current one, unless it is current.
pub fn apply(tx: &mut Tx<'_>, hash: &str) -> Result<(), StoreError> {
    let newest = newest(tx)?;
    if newest.as_ref().is_some_and(|newest| newest.hash == hash) {
        return Ok(());
    }
    let row = ResourceSetVersionRow {
        version: newest.map_or(1, |newest| newest.version + 1),
        hash: hash.to_owned(),
        applied: tx.now(),
    };
    row.insert(tx)
}

/// Returns a set.
pub fn find(tx: &mut Tx<'_>, hash: &str) -> Result<Option<ResourceSetRow>, StoreError> {
    tx.fetch_optional(&ResourceSetRow::select("WHERE hash = ?1"), params![hash])
}

/// Returns the newest version. `None` if no set was ever applied.
pub fn newest(tx: &mut Tx<'_>) -> Result<Option<ResourceSetVersionRow>, StoreError> {
    let sql = ResourceSetVersionRow::select("ORDER BY version DESC LIMIT 1");
    tx.fetch_optional(&sql, params![])
}
