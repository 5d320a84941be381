//! Sealed secrets. What is stored can be read by nobody who has only the database.

use provost_core::Timestamp;

use crate::{StoreError, Tx, params};

table! {
    /// One sealed value of a secret.
    SecretRow in "secret" {
        /// The tenancy boundary.
        namespace: String,
        /// The name of the secret.
        name: String,
        /// Which of its values.
        key as "item": String,
        /// The key it is sealed with.
        key_id: String,
        /// The nonce, and behind it the sealed value.
        sealed: Vec<u8>,
        /// Counts its changes.
        revision: u64,
        /// When it was last changed.
        updated: Timestamp,
    }
}

/// The row in a place: namespace, name and key.
pub fn get(
    tx: &mut Tx<'_>,
    namespace: &str,
    name: &str,
    key: &str,
) -> Result<Option<SecretRow>, StoreError> {
    let sql = SecretRow::select("WHERE namespace = ?1 AND name = ?2 AND item = ?3");
    tx.optional(&sql, params![namespace, name, key])
}

/// Keeps a row in the place of the one with revision `replaces`, or where there is none. False if that is not how it is.
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

/// The place of a secret in the order of the rows.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretPlace {
    /// The tenancy boundary.
    pub namespace: String,
    /// The name of the secret.
    pub name: String,
    /// The key within the secret.
    pub key: String,
}

/// Rows in the order of namespace, name and key, after a place; of one namespace, or of all.
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
            tx.all(&sql, params![namespace, space, name, key, limit])
        }
        None => {
            let sql = SecretRow::select(&format!("WHERE {place} (?1, ?2, ?3) {order} ?4"));
            tx.all(&sql, params![space, name, key, limit])
        }
    }
}

/// Removes a value, or all values of a secret. How many there were.
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
