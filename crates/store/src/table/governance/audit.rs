//! Who did what: records that are only ever added.

use provost_core::{AuditId, RunId, Timestamp};

use crate::{StoreError, Tx, params};

table! {
    /// One record.
    AuditRow in "audit" {
        /// Its id; later records have greater ones.
        id: AuditId,
        /// The tenancy boundary.
        namespace: String,
        /// When.
        at: Timestamp,
        /// What was done.
        action: String,
        /// How it went.
        outcome: String,
        /// With what.
        resource: String,
        /// In which run.
        run_id: Option<RunId>,
        /// The whole record as JSON.
        body: String,
    }
}

/// Which records to list.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// Of one run.
    pub run: Option<RunId>,
    /// With one thing.
    pub resource: Option<String>,
    /// That went one way.
    pub outcome: Option<String>,
    /// Older than this one.
    pub before: Option<AuditId>,
}

/// Records of a namespace, newest first.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: &str,
    filter: &AuditFilter,
    limit: u64,
) -> Result<Vec<AuditRow>, StoreError> {
    let mut rest = "WHERE namespace = ?1 AND (?2 IS NULL OR id < ?2)
          AND (?3 IS NULL OR resource = ?3) AND (?4 IS NULL OR outcome = ?4)"
        .to_owned();
    if filter.run.is_some() {
        rest.push_str(" AND run_id = ?6");
    }
    rest.push_str(" ORDER BY id DESC LIMIT ?5");
    let AuditFilter { run, resource, outcome, before } = filter;
    let sql = AuditRow::select(&rest);
    match run {
        Some(run) => tx.all(&sql, params![namespace, *before, *resource, *outcome, limit, *run]),
        None => tx.all(&sql, params![namespace, *before, *resource, *outcome, limit]),
    }
}

/// Removes records from before a time, of the oldest `limit` that there are. How many it were.
pub fn remove_before(tx: &mut Tx<'_>, before: Timestamp, limit: u64) -> Result<u64, StoreError> {
    // Ids rise with time, so nobody has to look at the young ones.
    let sql = "DELETE FROM audit WHERE id IN (
        SELECT id FROM (SELECT id, at FROM audit ORDER BY id LIMIT ?2) AS oldest WHERE at < ?1)";
    tx.execute(sql, params![before, limit])
}
