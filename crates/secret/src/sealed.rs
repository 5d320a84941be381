//! Stores of encrypted secrets. A store cannot decrypt them.

use std::collections::BTreeMap;

use futures::future::{BoxFuture, ready};
use parking_lot::Mutex;
use provost_core::Timestamp;
pub use provost_store::table::governance::secret::SecretPlace as SecretLocation;

use crate::SecretError;

/// An encrypted value in its location.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SealedSecret {
    /// Namespace of the secret.
    pub namespace: String,
    /// Name of the secret.
    pub name: String,
    /// Key of one value of the secret.
    pub key: String,
    /// Id of the encryption key.
    pub key_id: String,
    /// Nonce, followed by the encrypted value.
    pub sealed: Vec<u8>,
    /// Revision, which increases with every change.
    pub revision: u64,
    /// Time of the last change.
    pub updated: Timestamp,
}

impl SealedSecret {
    /// Returns the location of the secret.
    pub fn location(&self) -> SecretLocation {
        let Self { namespace, name, key, .. } = self;
        SecretLocation { namespace: namespace.clone(), name: name.clone(), key: key.clone() }
    }
}

/// Stores encrypted secrets. Implementations neither encrypt nor decrypt.
pub trait SecretStore: Send + Sync + 'static {
    /// Returns the secret at a location. `None` if there is none.
    fn get<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<SealedSecret>, SecretError>>;

    /// Stores a secret if the stored revision is `replaces`; `None` means that no secret is stored. Returns false
    /// otherwise and changes nothing.
    fn put(
        &self,
        row: SealedSecret,
        replaces: Option<u64>,
    ) -> BoxFuture<'_, Result<bool, SecretError>>;

    /// Returns up to `limit` secrets after a location, ordered by namespace, name and key. `None` as the namespace
    /// returns those of all namespaces.
    fn list<'a>(
        &'a self,
        namespace: Option<&'a str>,
        after: Option<SecretLocation>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<SealedSecret>, SecretError>>;

    /// Deletes a value, or all values of a secret if `key` is `None`. Returns the number of deleted values, 0 if there
    /// is none.
    fn delete<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        key: Option<&'a str>,
    ) -> BoxFuture<'a, Result<u64, SecretError>>;
}

/// Stores encrypted secrets in memory.
#[derive(Debug, Default)]
pub struct InMemorySecretStore {
    rows: Mutex<BTreeMap<SecretLocation, SealedSecret>>,
}

impl InMemorySecretStore {
    /// Runs a function on the locked rows.
    fn with<T>(&self, work: impl FnOnce(&mut BTreeMap<SecretLocation, SealedSecret>) -> T) -> T {
        work(&mut self.rows.lock())
    }
}

impl SecretStore for InMemorySecretStore {
    fn get<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<SealedSecret>, SecretError>> {
        let location = SecretLocation {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            key: key.to_owned(),
        };
        Box::pin(ready(Ok(self.with(|rows| rows.get(&location).cloned()))))
    }

    fn put(
        &self,
        row: SealedSecret,
        replaces: Option<u64>,
    ) -> BoxFuture<'_, Result<bool, SecretError>> {
        let location = row.location();
        let done = self.with(|rows| {
            let fits = rows.get(&location).map(|row| row.revision) == replaces;
            if fits {
                rows.insert(location, row);
            }
            fits
        });
        Box::pin(ready(Ok(done)))
    }

    fn list<'a>(
        &'a self,
        namespace: Option<&'a str>,
        after: Option<SecretLocation>,
        limit: u64,
    ) -> BoxFuture<'a, Result<Vec<SealedSecret>, SecretError>> {
        let found = self.with(|rows| {
            let is_in_namespace =
                |row: &&SealedSecret| namespace.is_none_or(|requested| row.namespace == requested);
            let later =
                rows.iter().filter(|(location, _)| after.as_ref().is_none_or(|at| *location > at));
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            later.map(|(_, row)| row).filter(is_in_namespace).take(limit).cloned().collect()
        });
        Box::pin(ready(Ok(found)))
    }

    fn delete<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        key: Option<&'a str>,
    ) -> BoxFuture<'a, Result<u64, SecretError>> {
        let deleted = self.with(|rows| {
            let before = rows.len();
            rows.retain(|location, _| {
                location.namespace != namespace
                    || location.name != name
                    || key.is_some_and(|key| key != location.key)
            });
            before - rows.len()
        });
        Box::pin(ready(Ok(deleted as u64)))
    }
}
