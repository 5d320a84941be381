//! Key-value storage of a tool across calls.

mod file;

use std::collections::BTreeMap;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;

use crate::limits::KEYS_MAX;

pub use file::FileKeyValueStore;

/// Namespace and tool that own values. A tool cannot access the values of another tool.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyValueScope {
    /// Namespace of the run.
    pub namespace: String,
    /// Name of the tool.
    pub tool: String,
}

/// Error of reading or storing a value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyValueError {
    /// The key is empty, too long or not UTF-8.
    #[error("a key must have 1 to 256 bytes")]
    Key,
    /// The value is too large.
    #[error("a value must not exceed 64 KiB")]
    TooLarge,
    /// The tool has too many keys.
    #[error("a tool must not have more than 1000 keys")]
    Full,
    /// The storage is not available at the moment.
    #[error("the key-value storage is not available: {0}")]
    Unavailable(String),
}

/// Stores the values of tools. The caller checks the sizes of keys and values.
pub trait KeyValueStore: Send + Sync + 'static {
    /// Returns a value. `None` if the key does not exist.
    fn get<'a>(
        &'a self,
        scope: &'a KeyValueScope,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, KeyValueError>>;

    /// Stores a value, replacing an existing one. Returns [`KeyValueError::Full`] if the scope has too many keys.
    fn set<'a>(
        &'a self,
        scope: &'a KeyValueScope,
        key: &'a str,
        value: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), KeyValueError>>;

    /// Deletes a value. Has no effect if the key does not exist.
    fn delete<'a>(
        &'a self,
        scope: &'a KeyValueScope,
        key: &'a str,
    ) -> BoxFuture<'a, Result<(), KeyValueError>>;
}

/// Stores values in memory until the program ends.
#[derive(Debug, Default)]
pub struct InMemoryKeyValueStore(Mutex<BTreeMap<KeyValueScope, BTreeMap<String, Vec<u8>>>>);

impl InMemoryKeyValueStore {
    /// Runs a function with the values of a scope.
    fn with_scope<T>(
        &self,
        scope: &KeyValueScope,
        work: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T,
    ) -> T {
        let mut all = self.0.lock();
        work(all.entry(scope.clone()).or_default())
    }
}

impl KeyValueStore for InMemoryKeyValueStore {
    fn get<'a>(
        &'a self,
        scope: &'a KeyValueScope,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, KeyValueError>> {
        let value = self.with_scope(scope, |values| values.get(key).cloned());
        std::future::ready(Ok(value)).boxed()
    }

    fn set<'a>(
        &'a self,
        scope: &'a KeyValueScope,
        key: &'a str,
        value: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), KeyValueError>> {
        let result = self.with_scope(scope, |values| {
            if values.len() >= KEYS_MAX && !values.contains_key(key) {
                return Err(KeyValueError::Full);
            }
            values.insert(key.to_owned(), value);
            Ok(())
        });
        std::future::ready(result).boxed()
    }

    fn delete<'a>(
        &'a self,
        scope: &'a KeyValueScope,
        key: &'a str,
    ) -> BoxFuture<'a, Result<(), KeyValueError>> {
        self.with_scope(scope, |values| values.remove(key));
        std::future::ready(Ok(())).boxed()
    }
}
