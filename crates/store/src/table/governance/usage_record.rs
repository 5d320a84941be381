//! What was used: records that are only ever added.

use provost_core::{MeterId, RunId, Timestamp};

use crate::{StoreError, Tx, params};

table! {
    /// One record.
    MeterRow in "meter" {
        /// Its id; later records have greater ones.
        id: MeterId,
        /// The tenancy boundary.
        namespace: String,
        /// When it was over.
        at: Timestamp,
        /// What was used.
        kind: String,
        /// By which agent.
        agent: String,
        /// In which run.
        run_id: Option<RunId>,
        /// The whole record as JSON.
        body: String,
    }
}

/// Records of a namespace, newest first, older than one.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: &str,
    before: Option<MeterId>,
    limit: u64,
) -> Result<Vec<MeterRow>, StoreError> {
    let sql = MeterRow::select(
        "WHERE namespace = ?1 AND (?2 IS NULL OR id < ?2) ORDER BY id DESC LIMIT ?3",
    );
    tx.all(&sql, params![namespace, before, limit])
}

/// Removes records from before a time, of the oldest `limit` that there are. How many it were.
pub fn remove_before(tx: &mut Tx<'_>, before: Timestamp, limit: u64) -> Result<u64, StoreError> {
    // Ids rise with time, so nobody has to look at the young ones.
    let sql = "DELETE FROM meter WHERE id IN (
        SELECT id FROM (SELECT id, at FROM meter ORDER BY id LIMIT ?2) AS oldest WHERE at < ?1)";
    tx.execute(sql, params![before, limit])
}
