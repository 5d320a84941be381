//! Secrets in the encrypted store.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::{Resolved, SecretResolver, SharedNamespaces, require_value};
use crate::{Keyring, SecretError, SecretRef, SecretStore};

/// Finds secrets in an encrypted store.
#[derive(Clone)]
pub struct StoreResolver {
    store: Arc<dyn SecretStore>,
    keys: Keyring,
    shared_namespaces: SharedNamespaces,
}

impl StoreResolver {
    /// Creates a resolver for the secrets of a store. It decrypts them with the keyring.
    pub fn new(store: Arc<dyn SecretStore>, keys: Keyring) -> Self {
        Self { store, keys, shared_namespaces: SharedNamespaces::default() }
    }

    /// Permits callers of every namespace to read the secrets of this namespace.
    #[must_use]
    pub fn share(mut self, namespace: impl Into<String>) -> Self {
        self.shared_namespaces.add(namespace);
        self
    }
}

impl SecretResolver for StoreResolver {
    fn resolve<'a>(
        &'a self,
        namespace: &'a str,
        reference: &'a SecretRef,
    ) -> BoxFuture<'a, Resolved> {
        Box::pin(async move {
            let namespace = self.shared_namespaces.resolve(namespace, reference)?;
            let row = self.store.get(namespace, &reference.name, &reference.key).await?;
            let Some(row) = row else { return Ok(None) };
            // A store that returns another row than requested must not be trusted, whatever the row contains.
            if (row.namespace.as_str(), &row.name, &row.key)
                != (namespace, &reference.name, &reference.key)
            {
                return Err(SecretError::Sealed { reference: reference.to_string() });
            }
            require_value(self.keys.open(&row)?, reference, || "the store".to_owned())
        })
    }
}
