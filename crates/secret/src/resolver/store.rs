//! Values in the sealed store.

use std::sync::Arc;

use futures::future::BoxFuture;

use super::{Resolved, SecretResolver, Shared, filled};
use crate::{Keyring, SealedStore, SecretError, SecretRef};

/// Finds values in a sealed store.
#[derive(Clone)]
pub struct StoreResolver {
    store: Arc<dyn SealedStore>,
    keys: Keyring,
    shared: Shared,
}

impl StoreResolver {
    /// Opens what is in the store with the keys.
    pub fn new(store: Arc<dyn SealedStore>, keys: Keyring) -> Self {
        Self { store, keys, shared: Shared::default() }
    }

    /// Lets everybody read a namespace.
    #[must_use]
    pub fn share(mut self, namespace: impl Into<String>) -> Self {
        self.shared.add(namespace);
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
            let namespace = self.shared.place(namespace, reference)?;
            let row = self.store.get(namespace, &reference.name, &reference.key).await?;
            let Some(row) = row else { return Ok(None) };
            // A store that hands out another row than was asked for must not be believed, whatever is in that row.
            if (row.namespace.as_str(), &row.name, &row.key)
                != (namespace, &reference.name, &reference.key)
            {
                return Err(SecretError::Sealed { reference: reference.to_string() });
            }
            filled(self.keys.open(&row)?, reference, || "the store".to_owned())
        })
    }
}
