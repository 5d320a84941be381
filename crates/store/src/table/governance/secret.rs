//! Encrypted secrets. The database does not hold the encryption key.

use provost_core::Timestamp;

use crate::{StoreError, Tx, params};

table! {
    /// An encrypted value of a secret.
    SecretRow in "secret" {
        /// Namespace of the row.
        namespace: String,
        /// Name of the secret.
        name: String,
        /// Key of the value within the secret.
        key as "item": String,
        /// Id of the encryption key.
        key_id: String,
        /// The nonce, followed by the encrypted value.
        sealed: Vec<u8>,
        /// Number of changes.
        revision: u64,
        /// Time of the last change.
        updated: Timestamp,
    }
}

/// Returns the value with this namespace, name and key. `None` if it does not exist.
pub fn get(
    tx: &mut Tx<'_>,
    namespace: &str,
    name: &str,
    key: &str,
) -> Result<Option<SecretRow>, StoreError> {
    let sql = SecretRow::select("WHERE namespace = ?1 AND name = ?2 AND item = ?3");
    tx.fetch_optional(&sql, params![namespace, name, key])
}

/// Replaces the row with revision `replaces`, or inserts a new row if `replaces` is `None`. Returns false if that
/// revision does not match or, for an insert, the row exists.
pub fn put(tx: &mut Tx<'_>, row: &SecretRow, replaces: Option<u64>) -> Result<bool, StoreError> {
    let Some(replaces) = replaces else { return row.insert_new(tx) };
    let sql = "UPDATE secret SET key_id = ?4, sealed = ?5, revision = ?6, updated = ?7 \
               WHERE namespace = ?1 AND name = ?2 AND item = ?3 AND revision = ?8";
    let SecretRow { namespace, name, key, key_id, sealed, revision, updated } = row;
    let changed = tx.execute_fenced(
        sql,
        params![*namespace, *name, *key, *key_id, *sealed, *revision, *updated, replaces],
    )?;
    Ok(changed == 1)
}

/// Position in a list of secrets.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretPlace {
    /// Namespace of the row.
    pub namespace: String,
    /// Name of the secret.
    pub name: String,
    /// Key of the value within the secret.
    pub key: String,
}

/// Returns rows sorted by namespace, name and key, after the position `after`. `None` as the namespace lists all
/// namespaces.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: Option<&str>,
    after: Option<&SecretPlace>,
    limit: u64,
) -> Result<Vec<SecretRow>, StoreError> {
    let after = |part: fn(&SecretPlace) -> &str| after.map(part).unwrap_or_default();
    let (space, name, key) = (after(|at| &at.namespace), after(|at| &at.name), after(|at| &at.key));
    let order = "ORDER BY namespace, name, item LIMIT";
    let place = "(namespace, name, item) >";
    match namespace {
        Some(namespace) => {
            let sql = SecretRow::select(&format!(
                "WHERE namespace = ?1 AND {place} (?2, ?3, ?4) {order} ?5"
            ));
            tx.fetch_all(&sql, params![namespace, space, name, key, limit])
        }
        None => {
            let sql = SecretRow::select(&format!("WHERE {place} (?1, ?2, ?3) {order} ?4"));
            tx.fetch_all(&sql, params![space, name, key, limit])
        }
    }
}

/// Removes one value of a secret, or all values if `key` is `None`. Returns the number of removed values.
pub fn remove(
    tx: &mut Tx<'_>,
    namespace: &str,
    name: &str,
    key: Option<&str>,
) -> Result<u64, StoreError> {
    match key {
        Some(key) => {
            let sql = "DELETE FROM secret WHERE namespace = ?1 AND name = ?2 AND item = ?3";
            tx.execute(sql, params![namespace, name, key])
        }
        None => {
            let sql = "DELETE FROM secret WHERE namespace = ?1 AND name = ?2";
            tx.execute(sql, params![namespace, name])
        }
    }
}
