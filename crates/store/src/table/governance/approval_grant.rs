//! Grants: standing approvals, which cover later calls too.

use provost_core::Timestamp;

use crate::{StoreError, Tx, params};

table! {
    /// A grant.
    ApprovalGrantRow in "approval_grant" {
        /// Namespace of the row.
        namespace: String,
        /// Scope of the grant: `run:<id>`, `session:<id>` or `agent:<name>`.
        scope: String,
        /// Hash of the approved call.
        call_key: String,
        /// The call as displayed to the approver, as JSON.
        plan: String,
        /// The approver.
        granted_by: String,
        /// Time of the approval.
        created: Timestamp,
    }
}

/// Returns true if one of the scopes has a grant for the call.
pub fn covers(
    tx: &mut Tx<'_>,
    namespace: &str,
    scopes: &[String],
    call_key: &str,
) -> Result<bool, StoreError> {
    let sql = "SELECT 1 FROM approval_grant WHERE namespace = ?1 AND scope = ?2 AND call_key = ?3";
    for scope in scopes {
        if tx.exists(sql, params![namespace, scope, call_key])? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Identifies a grant within its namespace.
#[derive(Debug, Clone, Copy)]
pub struct GrantKey<'a> {
    /// Scope of the grant.
    pub scope: &'a str,
    /// Hash of the approved call.
    pub call_key: &'a str,
}

/// Returns up to `limit` grants of a namespace, sorted by scope and call key, after the grant `after`.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: &str,
    after: GrantKey<'_>,
    limit: u64,
) -> Result<Vec<ApprovalGrantRow>, StoreError> {
    let sql = ApprovalGrantRow::select(
        "WHERE namespace = ?1 AND (scope, call_key) > (?2, ?3) ORDER BY scope, call_key LIMIT ?4",
    );
    tx.fetch_all(&sql, params![namespace, after.scope, after.call_key, limit])
}

/// Removes a grant. Returns false if it does not exist.
pub fn revoke(
    tx: &mut Tx<'_>,
    namespace: &str,
    scope: &str,
    call_key: &str,
) -> Result<bool, StoreError> {
    let sql = "DELETE FROM approval_grant WHERE namespace = ?1 AND scope = ?2 AND call_key = ?3";
    Ok(tx.execute(sql, params![namespace, scope, call_key])? == 1)
}

/// Removes all grants of a scope and returns their number.
pub fn revoke_scope(tx: &mut Tx<'_>, namespace: &str, scope: &str) -> Result<u64, StoreError> {
    let sql = "DELETE FROM approval_grant WHERE namespace = ?1 AND scope = ?2";
    tx.execute(sql, params![namespace, scope])
}
