//! What an operator does with sealed secrets. No way leads back to a value.

use std::sync::Arc;

use provost_core::{Env, Secret, Timestamp};

use crate::{Keyring, SealedRow, SealedStore, SecretError, SecretRef};

/// Rows that are read at once.
const PAGE_ROWS: u64 = 200;
/// How often a change is tried again because somebody else came first.
const TRIES_MAX: u32 = 5;

/// Sets, lists, removes and rotates secrets.
#[derive(Clone)]
pub struct Vault {
    store: Arc<dyn SealedStore>,
    keys: Keyring,
    env: Env,
}

/// What may be known of a secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFacts {
    /// The tenancy boundary.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Which of its values.
    pub key: String,
    /// The key it is sealed with.
    pub key_id: String,
    /// Counts its changes.
    pub revision: u64,
    /// When it was last changed.
    pub updated: Timestamp,
}

/// What came of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rotation {
    /// Rows that were sealed anew.
    pub resealed: u64,
    /// Rows that were under the current key before.
    pub current: u64,
}

impl Vault {
    /// Seals with the keyring's first key, into a store.
    pub fn new(store: Arc<dyn SealedStore>, keys: Keyring) -> Self {
        Self { store, keys, env: Env::system() }
    }

    /// The same with another clock.
    #[must_use]
    pub fn with_env(self, env: Env) -> Self {
        Self { env, ..self }
    }

    /// Sets a value, or replaces it. Returns its revision.
    pub async fn set(
        &self,
        namespace: &str,
        reference: &SecretRef,
        value: &Secret<String>,
    ) -> Result<u64, SecretError> {
        let namespace = reference.namespace.as_deref().unwrap_or(namespace);
        SecretRef { namespace: Some(namespace.to_owned()), ..reference.clone() }.check()?;
        if value.expose().trim().is_empty() {
            let place = "what was given".to_owned();
            return Err(SecretError::Empty { reference: reference.to_string(), place });
        }
        // What could not be kept out of what is written down is not taken in.
        let problem = provost_redact::Redactor::new().learn(value).err();
        if let Some(problem) = problem {
            return Err(SecretError::Unlearnable { reference: reference.to_string(), problem });
        }
        for _ in 0..TRIES_MAX {
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

    /// What there is, without values; of one namespace, or of all.
    pub async fn list(&self, namespace: Option<&str>) -> Result<Vec<SecretFacts>, SecretError> {
        Self::facts(&*self.store, namespace).await
    }

    /// What there is in a store, for which no key is needed.
    pub async fn facts(
        store: &dyn SealedStore,
        namespace: Option<&str>,
    ) -> Result<Vec<SecretFacts>, SecretError> {
        let mut facts = Vec::new();
        let mut after = None;
        loop {
            let rows = store.list(namespace, after.take(), PAGE_ROWS).await?;
            let Some(last) = rows.last() else { return Ok(facts) };
            after = Some(last.place());
            facts.extend(rows.into_iter().map(facts_of));
        }
    }

    /// Removes a value, or all values of a secret. How many there were.
    pub async fn delete(
        &self,
        namespace: &str,
        name: &str,
        key: Option<&str>,
    ) -> Result<u64, SecretError> {
        self.store.delete(namespace, name, key).await
    }

    /// Seals everything anew that is not under the first key. What was done before a crash is not done again.
    pub async fn reseal(&self) -> Result<Rotation, SecretError> {
        let mut rotation = Rotation::default();
        let mut after = None;
        loop {
            let rows = self.store.list(None, after.take(), PAGE_ROWS).await?;
            let Some(last) = rows.last() else { return Ok(rotation) };
            after = Some(last.place());
            for row in rows {
                match row.key_id == self.keys.current().as_str() {
                    true => rotation.current += 1,
                    false => rotation.resealed += u64::from(self.reseal_row(row).await?),
                }
            }
        }
    }

    /// False if it is gone or under the first key by now.
    async fn reseal_row(&self, mut row: SealedRow) -> Result<bool, SecretError> {
        for _ in 0..TRIES_MAX {
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

fn facts_of(row: SealedRow) -> SecretFacts {
    let SealedRow { namespace, name, key, key_id, revision, updated, .. } = row;
    SecretFacts { namespace, name, key, key_id, revision, updated }
}

impl std::fmt::Debug for Vault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Vault").field("keys", &self.keys).finish_non_exhaustive()
    }
}
