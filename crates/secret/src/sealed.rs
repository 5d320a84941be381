//! Where sealed secrets are kept. Whoever keeps them cannot read them.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures::future::{BoxFuture, ready};
use provost_core::Timestamp;
pub use provost_store::table::governance::secret::SecretPlace as SealedPlace;

use crate::SecretError;

/// One sealed value in its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedRow {
    /// The tenancy boundary.
    pub namespace: String,
    /// The name of the secret.
    pub name: String,
    /// Which of its values.
    pub key: String,
    /// The key it is sealed with.
    pub key_id: String,
    /// The nonce, and behind it the sealed value.
    pub sealed: Vec<u8>,
    /// Counts its changes.
    pub revision: u64,
    /// When it was last changed.
    pub updated: Timestamp,
}

impl SealedRow {
    /// The place of the row.
    pub fn place(&self) -> SealedPlace {
        let Self { namespace, name, key, .. } = self;
        SealedPlace { namespace: namespace.clone(), name: name.clone(), key: key.clone() }
    }
}

/// Keeps sealed rows.
pub trait SealedStore: Send + Sync + 'static {
    /// The row in a place.
    fn get<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<SealedRow>, SecretError>>;

    /// Keeps a row in the place of the one with revision `replaces`, or where there is none. False if that is not how it is.
    fn put(
        &self,
        row: SealedRow,
        replaces: Option<u64>,
    ) -> BoxFuture<'_, Result<bool, SecretError>>;

    /// Rows in the order of namespace, name and key, after a place; of one namespace, or of all.
    fn list<'a>(
        &'a self,
        namespace: Option<&'a str>,
        after: Option<SealedPlace>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<SealedRow>, SecretError>>;

    /// Removes a value, or all values of a secret. How many there were.
    fn delete<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        key: Option<&'a str>,
    ) -> BoxFuture<'a, Result<u64, SecretError>>;
}

/// Keeps rows in memory.
#[derive(Debug, Default)]
pub struct MemorySealedStore {
    rows: Mutex<BTreeMap<SealedPlace, SealedRow>>,
}

impl MemorySealedStore {
    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<SealedPlace, SealedRow>) -> T) -> T {
        work(&mut self.rows.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl SealedStore for MemorySealedStore {
    fn get<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<SealedRow>, SecretError>> {
        let place = SealedPlace {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            key: key.to_owned(),
        };
        Box::pin(ready(Ok(self.with(|rows| rows.get(&place).cloned()))))
    }

    fn put(
        &self,
        row: SealedRow,
        replaces: Option<u64>,
    ) -> BoxFuture<'_, Result<bool, SecretError>> {
        let place = row.place();
        let done = self.with(|rows| {
            let fits = rows.get(&place).map(|row| row.revision) == replaces;
            if fits {
                rows.insert(place, row);
            }
            fits
        });
        Box::pin(ready(Ok(done)))
    }

    fn list<'a>(
        &'a self,
        namespace: Option<&'a str>,
        after: Option<SealedPlace>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<SealedRow>, SecretError>> {
        let found = self.with(|rows| {
            let is_wanted =
                |row: &&SealedRow| namespace.is_none_or(|wanted| row.namespace == wanted);
            let later =
                rows.iter().filter(|(place, _)| after.as_ref().is_none_or(|at| *place > at));
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            later.map(|(_, row)| row).filter(is_wanted).take(limit).cloned().collect()
        });
        Box::pin(ready(Ok(found)))
    }

    fn delete<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        key: Option<&'a str>,
    ) -> BoxFuture<'a, Result<u64, SecretError>> {
        let gone = self.with(|rows| {
            let before = rows.len();
            rows.retain(|place, _| {
                place.namespace != namespace
                    || place.name != name
                    || key.is_some_and(|key| key != place.key)
            });
            before - rows.len()
        });
        Box::pin(ready(Ok(gone as u64)))
    }
}
