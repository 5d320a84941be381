//! Values that a tool keeps from one call to the next, under keys of its own.

mod file;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use futures::FutureExt as _;
use futures::future::BoxFuture;

use crate::limits::KEYS_MAX;

pub use file::FileKeyValues;

/// Whose values they are. One tool never sees another's.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KvScope {
    /// The namespace of the run.
    pub namespace: String,
    /// The tool.
    pub tool: String,
}

/// Why a value cannot be read or kept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KvError {
    /// The key is empty, too long or no text.
    #[error("a key has 1 to 256 bytes")]
    Key,
    /// The value is too large.
    #[error("a value has at most 64 KiB")]
    TooLarge,
    /// There are too many.
    #[error("a tool has at most 1000 keys")]
    Full,
    /// It is not there at the moment.
    #[error("values cannot be kept: {0}")]
    Unavailable(String),
}

/// Keeps the values of tools. Sizes of keys and values are checked before.
pub trait KeyValues: Send + Sync + 'static {
    /// A value.
    fn get<'a>(
        &'a self,
        scope: &'a KvScope,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, KvError>>;

    /// Keeps a value.
    fn set<'a>(
        &'a self,
        scope: &'a KvScope,
        key: &'a str,
        value: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), KvError>>;

    /// Forgets a value; nothing happens if there was none.
    fn delete<'a>(&'a self, scope: &'a KvScope, key: &'a str)
    -> BoxFuture<'a, Result<(), KvError>>;
}

/// Keeps values as long as the program runs.
#[derive(Debug, Default)]
pub struct MemoryKeyValues(Mutex<BTreeMap<KvScope, BTreeMap<String, Vec<u8>>>>);

impl MemoryKeyValues {
    fn with<T>(&self, scope: &KvScope, act: impl FnOnce(&mut BTreeMap<String, Vec<u8>>) -> T) -> T {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        act(all.entry(scope.clone()).or_default())
    }
}

impl KeyValues for MemoryKeyValues {
    fn get<'a>(
        &'a self,
        scope: &'a KvScope,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Vec<u8>>, KvError>> {
        let value = self.with(scope, |values| values.get(key).cloned());
        std::future::ready(Ok(value)).boxed()
    }

    fn set<'a>(
        &'a self,
        scope: &'a KvScope,
        key: &'a str,
        value: Vec<u8>,
    ) -> BoxFuture<'a, Result<(), KvError>> {
        let kept = self.with(scope, |values| {
            if values.len() >= KEYS_MAX && !values.contains_key(key) {
                return Err(KvError::Full);
            }
            values.insert(key.to_owned(), value);
            Ok(())
        });
        std::future::ready(kept).boxed()
    }

    fn delete<'a>(
        &'a self,
        scope: &'a KvScope,
        key: &'a str,
    ) -> BoxFuture<'a, Result<(), KvError>> {
        self.with(scope, |values| values.remove(key));
        std::future::ready(Ok(())).boxed()
    }
}
