//! Management of encrypted secrets by an operator. No function returns a value.

use std::sync::Arc;

use provost_core::{Env, Secret, Timestamp};

use crate::{Keyring, SealedSecret, SecretError, SecretRef, SecretStore};

/// Number of secrets per page.
const PAGE_ROWS: u64 = 200;
/// Maximum number of attempts after concurrent changes.
const ATTEMPTS_MAX: u32 = 5;

/// Sets, lists, deletes and re-encrypts secrets.
#[derive(Clone)]
pub struct Vault {
    store: Arc<dyn SecretStore>,
    keys: Keyring,
    env: Env,
}

/// Metadata of a secret, without its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretMetadata {
    /// Namespace of the secret.
    pub namespace: String,
    /// Name of the secret.
    pub name: String,
    /// Key of one value of the secret.
    pub key: String,
    /// Id of the encryption key.
    pub key_id: String,
    /// Revision, which increases with every change.
    pub revision: u64,
    /// Time of the last change.
    pub updated: Timestamp,
}

/// Result of a key rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RotationReport {
    /// Number of re-encrypted secrets.
    pub resealed: u64,
    /// Number of secrets that already used the current key.
    pub current: u64,
}

impl Vault {
    /// Creates a vault that encrypts with the first key of the keyring.
    pub fn new(store: Arc<dyn SecretStore>, keys: Keyring) -> Self {
        Self { store, keys, env: Env::system() }
    }

    /// Replaces the environment, whose clock sets the time of updates.
    #[must_use]
    pub fn with_env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    /// Encrypts and stores a value, in place of the current one if there is one. `namespace` applies if the reference
    /// names none. Returns its revision, starting at 1. Fails if the value is empty or cannot be redacted, or after
    /// repeated concurrent changes.
    pub async fn set(
        &self,
        namespace: &str,
        reference: &SecretRef,
        value: &Secret<String>,
    ) -> Result<u64, SecretError> {
        let namespace = reference.namespace.as_deref().unwrap_or(namespace);
        SecretRef { namespace: Some(namespace.to_owned()), ..reference.clone() }.check()?;
        if value.expose().trim().is_empty() {
            let place = "the new value".to_owned();
            return Err(SecretError::Empty { reference: reference.to_string(), place });
        }
        // A value that cannot be redacted is rejected.
        let problem = provost_redact::Redactor::new().register(value).err();
        if let Some(problem) = problem {
            return Err(SecretError::Unredactable { reference: reference.to_string(), problem });
        }
        for _ in 0..ATTEMPTS_MAX {
            let found = self.store.get(namespace, &reference.name, &reference.key).await?;
            let replaces = found.map(|row| row.revision);
            let revision = replaces.unwrap_or(0) + 1;
            let row = self.keys.seal(namespace, reference, revision, self.env.now(), value)?;
            if self.store.put(row, replaces).await? {
                return Ok(revision);
            }
        }
        Err(SecretError::Conflict { reference: reference.to_string() })
    }

    /// Returns the metadata of all secrets in a namespace, or in all namespaces for `None`.
    pub async fn list(&self, namespace: Option<&str>) -> Result<Vec<SecretMetadata>, SecretError> {
        Self::metadata(&*self.store, namespace).await
    }

    /// Returns the metadata of all secrets of a store, in one namespace or in all for `None`. Needs no key.
    pub async fn metadata(
        store: &dyn SecretStore,
        namespace: Option<&str>,
    ) -> Result<Vec<SecretMetadata>, SecretError> {
        let mut metadata = Vec::new();
        let mut after = None;
        loop {
            let rows = store.list(namespace, after.take(), PAGE_ROWS).await?;
            let Some(last) = rows.last() else { return Ok(metadata) };
            after = Some(last.location());
            metadata.extend(rows.into_iter().map(metadata_of));
        }
    }

    /// Deletes a value, or all values of a secret if `key` is `None`. Returns the number of deleted values, 0 if there
    /// is none.
    pub async fn delete(
        &self,
        namespace: &str,
        name: &str,
        key: Option<&str>,
    ) -> Result<u64, SecretError> {
        self.store.delete(namespace, name, key).await
    }

    /// Re-encrypts all secrets of all namespaces that do not use the first key. A repeated call after a crash skips
    /// completed secrets.
    pub async fn reseal(&self) -> Result<RotationReport, SecretError> {
        let mut rotation = RotationReport::default();
        let mut after = None;
        loop {
            let rows = self.store.list(None, after.take(), PAGE_ROWS).await?;
            let Some(last) = rows.last() else { return Ok(rotation) };
            after = Some(last.location());
            for row in rows {
                match row.key_id == self.keys.current().as_str() {
                    true => rotation.current += 1,
                    false => rotation.resealed += u64::from(self.reseal_row(row).await?),
                }
            }
        }
    }

    /// Re-encrypts one secret with the first key. Returns false if it was deleted or already uses that key. Retries
    /// after concurrent changes.
    async fn reseal_row(&self, mut row: SealedSecret) -> Result<bool, SecretError> {
        for _ in 0..ATTEMPTS_MAX {
            if row.key_id == self.keys.current().as_str() {
                return Ok(false);
            }
            let value = self.keys.open(&row)?;
            let reference =
                SecretRef { namespace: None, name: row.name.clone(), key: row.key.clone() };
            let next = row.revision + 1;
            let sealed = self.keys.seal(&row.namespace, &reference, next, row.updated, &value)?;
            if self.store.put(sealed, Some(row.revision)).await? {
                return Ok(true);
            }
            match self.store.get(&row.namespace, &row.name, &row.key).await? {
                Some(now) => row = now,
                None => return Ok(false),
            }
        }
        Err(SecretError::Conflict {
            reference: format!("{}/{}:{}", row.namespace, row.name, row.key),
        })
    }
}

/// Returns the metadata of a secret, without its encrypted value.
fn metadata_of(row: SealedSecret) -> SecretMetadata {
    let SealedSecret { namespace, name, key, key_id, revision, updated, .. } = row;
    SecretMetadata { namespace, name, key, key_id, revision, updated }
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vault").field("keys", &self.keys).finish_non_exhaustive()
    }
}
