//! Usage records. Records are append-only.

use provost_core::{RunId, Timestamp, UsageRecordId};

use crate::{StoreError, Tx, params};

table! {
    /// A usage record.
    UsageRecordRow in "meter" {
        /// The id. Later records have greater ids.
        id: UsageRecordId,
        /// Namespace of the row.
        namespace: String,
        /// Time at which the use ended.
        at: Timestamp,
        /// Kind of the use.
        kind: String,
        /// The agent.
        agent: String,
        /// The run.
        run_id: Option<RunId>,
        /// The whole record, as JSON.
        body: String,
    }
}

/// Returns usage records of a namespace, newest first, older than `before`.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: &str,
    before: Option<UsageRecordId>,
    limit: u64,
) -> Result<Vec<UsageRecordRow>, StoreError> {
    let sql = UsageRecordRow::select(
        "WHERE namespace = ?1 AND (?2 IS NULL OR id < ?2) ORDER BY id DESC LIMIT ?3",
    );
    tx.fetch_all(&sql, params![namespace, before, limit])
}

/// Removes the records from before `before` among the oldest `limit` records, and returns their number.
pub fn remove_before(tx: &mut Tx<'_>, before: Timestamp, limit: u64) -> Result<u64, StoreError> {
    // Ids rise with time, so the newer records need no check.
    let sql = "DELETE FROM meter WHERE id IN (
        SELECT id FROM (SELECT id, at FROM meter ORDER BY id LIMIT ?2) AS oldest WHERE at < ?1)";
    tx.execute(sql, params![before, limit])
}
