//! Sealing, resolving and rotating, and what must not get through.

mod key;
mod resolve;

use std::sync::Arc;

use provost_core::Secret;

use crate::{InMemorySecretStore, Keyring, SecretRef, Vault};

fn named(text: &str) -> SecretRef {
    text.parse().unwrap()
}

/// A vault with some secrets, its store and its keys.
async fn require_value(values: &[(&str, &str, &str)]) -> (Arc<InMemorySecretStore>, Keyring) {
    let (store, keys) = (Arc::new(InMemorySecretStore::default()), Keyring::generate().unwrap());
    let vault = Vault::new(store.clone(), keys.clone());
    for (namespace, reference, value) in values {
        vault.set(namespace, &named(reference), &Secret::from(*value)).await.unwrap();
    }
    (store, keys)
}
