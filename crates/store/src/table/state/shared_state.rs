//! Values of shared state, which outlive a run. Each name has its own row.

use provost_core::{RunId, Timestamp};

use crate::{StoreError, Tx, params};

table! {
    /// A value of shared state.
    SharedStateRow in "shared_state" {
        /// Namespace of the row.
        namespace: String,
        /// `session`, `user` or `app`.
        scope: String,
        /// Id of the session or user; empty for the scope `app`.
        owner: String,
        /// Name within the scope.
        name: String,
        /// The value, as JSON.
        value: String,
        /// The run that set the value.
        run_id: RunId,
        /// Time at which the value was set.
        updated: Timestamp,
    }
}

/// Identifies the owner of values.
#[derive(Debug, Clone, Copy)]
pub struct StateOwner<'a> {
    /// Namespace of the row.
    pub namespace: &'a str,
    /// `session`, `user` or `app`.
    pub scope: &'a str,
    /// Id of the session or user; empty for the scope `app`.
    pub id: &'a str,
}

impl SharedStateRow {
    /// Inserts or replaces the value.
    pub fn put(&self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        tx.execute(
            "INSERT INTO shared_state (namespace, scope, owner, name, value, run_id, updated)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
             ON CONFLICT (namespace, scope, owner, name) DO UPDATE
                SET value = excluded.value, run_id = excluded.run_id, updated = excluded.updated",
            params![
                self.namespace,
                self.scope,
                self.owner,
                self.name,
                self.value,
                self.run_id,
                self.updated
            ],
        )
        .map(drop)
    }
}

/// Returns all values that a run of this session and user can read.
pub fn seen_by(
    tx: &mut Tx<'_>,
    namespace: &str,
    session: &str,
    user: Option<&str>,
) -> Result<Vec<SharedStateRow>, StoreError> {
    let sql = SharedStateRow::select(
        "WHERE namespace = ?1 AND (scope = 'session' AND owner = ?2
            OR scope = 'user' AND owner = ?3 OR scope = 'app' AND owner = '')
         ORDER BY scope, name",
    );
    tx.fetch_all(&sql, params![namespace, session, user])
}

/// Returns the values of an owner, sorted by name, after the name `after`.
pub fn list(
    tx: &mut Tx<'_>,
    owner: StateOwner<'_>,
    after: Option<&str>,
    limit: u64,
) -> Result<Vec<SharedStateRow>, StoreError> {
    let sql = SharedStateRow::select(
        "WHERE namespace = ?1 AND scope = ?2 AND owner = ?3 AND (?4 IS NULL OR name > ?4)
         ORDER BY name LIMIT ?5",
    );
    tx.fetch_all(&sql, params![owner.namespace, owner.scope, owner.id, after, limit])
}

/// Removes a value. Returns false if it does not exist.
pub fn remove(tx: &mut Tx<'_>, owner: StateOwner<'_>, name: &str) -> Result<bool, StoreError> {
    let sql =
        "DELETE FROM shared_state WHERE namespace = ?1 AND scope = ?2 AND owner = ?3 AND name = ?4";
    Ok(tx.execute(sql, params![owner.namespace, owner.scope, owner.id, name])? == 1)
}

/// Removes all values of an owner and returns their number.
pub fn forget(tx: &mut Tx<'_>, owner: StateOwner<'_>) -> Result<u64, StoreError> {
    let sql = "DELETE FROM shared_state WHERE namespace = ?1 AND scope = ?2 AND owner = ?3";
    tx.execute(sql, params![owner.namespace, owner.scope, owner.id])
}
