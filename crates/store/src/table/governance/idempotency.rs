//! Answers kept under the caller's key, so that a call that is repeated is answered once.

use provost_core::{TaskId, Timestamp};

use crate::{StoreError, Tx, params};

table! {
    /// One answered call.
    IdemRow in "idem" {
        /// The tenancy boundary.
        namespace: String,
        /// Who called what.
        scope: String,
        /// The caller's key.
        idem_key: String,
        /// The hash of the request: another one under the same key is a conflict.
        request_hash: String,
        /// The answer, as JSON.
        result: String,
        /// When it was answered.
        created: Timestamp,
        /// When the key may be forgotten; never, if there is nothing here.
        expires: Option<Timestamp>,
        /// The task that the answer is about: the answer is removed together with it.
        task_id: Option<TaskId>,
    }
}

/// The answer under the key.
pub fn get(
    tx: &mut Tx<'_>,
    namespace: &str,
    scope: &str,
    idem_key: &str,
) -> Result<Option<IdemRow>, StoreError> {
    let sql = IdemRow::select("WHERE namespace = ?1 AND scope = ?2 AND idem_key = ?3");
    tx.optional(&sql, params![namespace, scope, idem_key])
}

/// Stores the answer under a key that this transaction has reserved.
pub fn answer(tx: &mut Tx<'_>, row: &IdemRow) -> Result<(), StoreError> {
    let IdemRow { namespace, scope, idem_key, result, expires, task_id, .. } = row;
    let sql = "UPDATE idem SET result = ?4, expires = ?5, task_id = ?6 WHERE namespace = ?1 AND scope = ?2 AND idem_key = ?3";
    tx.execute(sql, params![namespace, scope, idem_key, result, expires, task_id]).map(drop)
}

/// Gives up a key that this transaction has reserved.
pub fn release(
    tx: &mut Tx<'_>,
    namespace: &str,
    scope: &str,
    idem_key: &str,
) -> Result<(), StoreError> {
    let sql = "DELETE FROM idem WHERE namespace = ?1 AND scope = ?2 AND idem_key = ?3";
    tx.execute(sql, params![namespace, scope, idem_key]).map(drop)
}

/// Forgets up to `limit` keys whose time has come.
pub fn expire(tx: &mut Tx<'_>, limit: u64) -> Result<u64, StoreError> {
    tx.execute(
        "DELETE FROM idem WHERE (namespace, scope, idem_key) IN (
           SELECT namespace, scope, idem_key FROM idem WHERE expires <= ?1 ORDER BY expires LIMIT ?2)",
        params![tx.now(), limit],
    )
}
