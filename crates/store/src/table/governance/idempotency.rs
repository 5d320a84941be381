//! Responses stored under the caller's idempotency key, so that a repeated request gets the same response.

use provost_core::{TaskId, Timestamp};

use crate::{StoreError, Tx, params};

table! {
    /// A stored response.
    IdempotencyRow in "idem" {
        /// Namespace of the row.
        namespace: String,
        /// The caller and the operation.
        scope: String,
        /// The idempotency key.
        idem_key: String,
        /// Hash of the request. A different request under the same key is a conflict.
        request_hash: String,
        /// The response, as JSON.
        result: String,
        /// Time of creation.
        created: Timestamp,
        /// Time after which the key may be removed; `None` for never.
        expires: Option<Timestamp>,
        /// The task of the response. Removing the task also removes the response.
        task_id: Option<TaskId>,
    }
}

/// Returns the stored response of a key, with the hash of its request. `None` if the key was not used.
pub fn get(
    tx: &mut Tx<'_>,
    namespace: &str,
    scope: &str,
    idem_key: &str,
) -> Result<Option<IdempotencyRow>, StoreError> {
    let sql = IdempotencyRow::select("WHERE namespace = ?1 AND scope = ?2 AND idem_key = ?3");
    tx.fetch_optional(&sql, params![namespace, scope, idem_key])
}

/// Stores the response under a key that this transaction has reserved.
pub fn answer(tx: &mut Tx<'_>, row: &IdempotencyRow) -> Result<(), StoreError> {
    let IdempotencyRow { namespace, scope, idem_key, result, expires, task_id, .. } = row;
    let sql = "UPDATE idem SET result = ?4, expires = ?5, task_id = ?6 WHERE namespace = ?1 AND scope = ?2 AND idem_key = ?3";
    tx.execute(sql, params![namespace, scope, idem_key, result, expires, task_id]).map(drop)
}

/// Releases a key that this transaction has reserved.
pub fn release(
    tx: &mut Tx<'_>,
    namespace: &str,
    scope: &str,
    idem_key: &str,
) -> Result<(), StoreError> {
    let sql = "DELETE FROM idem WHERE namespace = ?1 AND scope = ?2 AND idem_key = ?3";
    tx.execute(sql, params![namespace, scope, idem_key]).map(drop)
}

/// Removes up to `limit` expired keys and returns their number.
pub fn expire(tx: &mut Tx<'_>, limit: u64) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM idem WHERE (namespace, scope, idem_key) IN (
           SELECT namespace, scope, idem_key FROM idem WHERE expires <= ?1 ORDER BY expires LIMIT ?2)",
        params![tx.now(), limit],
    )
}
