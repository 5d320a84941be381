//! Grants: a person's yes that reaches further than one call.

use provost_core::Timestamp;

use crate::{StoreError, Tx, params};

table! {
    /// One grant.
    ApprovalGrantRow in "approval_grant" {
        /// The tenancy boundary.
        namespace: String,
        /// How far it reaches: `run:<id>`, `session:<id>` or `agent:<name>`.
        scope: String,
        /// The hash of the call it is for.
        call_key: String,
        /// The call as a person saw it, as JSON.
        plan: String,
        /// Who said yes.
        granted_by: String,
        /// When.
        created: Timestamp,
    }
}

/// True if a call with the key was granted in one of the scopes.
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

/// Names a grant within its namespace.
#[derive(Debug, Clone, Copy)]
pub struct GrantKey<'a> {
    /// The scope.
    pub scope: &'a str,
    /// The key of the call.
    pub call_key: &'a str,
}

/// The grants of a namespace, by scope and key, after the given one.
pub fn list(
    tx: &mut Tx<'_>,
    namespace: &str,
    after: GrantKey<'_>,
    limit: u64,
) -> Result<Vec<ApprovalGrantRow>, StoreError> {
    let sql = ApprovalGrantRow::select(
        "WHERE namespace = ?1 AND (scope, call_key) > (?2, ?3) ORDER BY scope, call_key LIMIT ?4",
    );
    tx.all(&sql, params![namespace, after.scope, after.call_key, limit])
}

/// Takes a grant back; false if there was none.
pub fn revoke(
    tx: &mut Tx<'_>,
    namespace: &str,
    scope: &str,
    call_key: &str,
) -> Result<bool, StoreError> {
    let sql = "DELETE FROM approval_grant WHERE namespace = ?1 AND scope = ?2 AND call_key = ?3";
    Ok(tx.execute(sql, params![namespace, scope, call_key])? == 1)
}

/// Takes back everything that was granted in a scope.
pub fn revoke_scope(tx: &mut Tx<'_>, namespace: &str, scope: &str) -> Result<u64, StoreError> {
    let sql = "DELETE FROM approval_grant WHERE namespace = ?1 AND scope = ?2";
    tx.execute(sql, params![namespace, scope])
}
