//! The audit log: append-only records of actions.

use provost_core::{AuditId, RunId, Timestamp};

use crate::{StoreError, Tx, params};

table! {
    /// An audit record.
    AuditRow in "audit" {
        /// The id. Later records have greater ids.
        id: AuditId,
        /// Namespace of the row.
        namespace: String,
        /// Time of the action.
        at: Timestamp,
        /// The action.
        action: String,
        /// Outcome of the action.
        outcome: String,
        /// The affected resource.
        resource: String,
        /// The run that performed the action.
        run_id: Option<RunId>,
        /// The whole record, as JSON.
        body: String,
    }
}

/// Criteria for listing audit records; `None` matches every value.
#[derive(Debug, Clone, Default)]
pub struct AuditFilter {
    /// The run that performed the action.
    pub run: Option<RunId>,
    /// The affected resource.
    pub resource: Option<String>,
    /// Outcome of the action.
    pub outcome: Option<String>,
    /// Records older than this one: the last record of the previous page.
    pub before: Option<AuditId>,
}

/// Returns audit records of a namespace, newest first.
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
        Some(run) => {
            tx.fetch_all(&sql, params![namespace, *before, *resource, *outcome, limit, *run])
        }
        None => tx.fetch_all(&sql, params![namespace, *before, *resource, *outcome, limit]),
    }
}

/// Removes the records from before `before` among the oldest `limit` records, and returns their number.
pub fn remove_before(tx: &mut Tx<'_>, before: Timestamp, limit: u64) -> Result<u64, StoreError> {
    // Ids rise with time, so the newer records need no check.
    let sql = "DELETE FROM audit WHERE id IN (
        SELECT id FROM (SELECT id, at FROM audit ORDER BY id LIMIT ?2) AS oldest WHERE at < ?1)";
    tx.execute(sql, params![before, limit])
}
