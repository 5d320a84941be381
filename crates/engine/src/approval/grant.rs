//! Standing approvals: approvals that cover more than one call.

use provost_core::ApprovalRequest;
use provost_core::lifecycle::{ApprovalKind, GrantScope};
use provost_store::Tx;
use provost_store::table::governance::approval::ApprovalRow;
use provost_store::table::governance::approval_grant::{self, ApprovalGrantRow};
use provost_store::table::work::run::RunRow;

use super::plan::call_key;
use crate::error::EngineError;

/// Returns true if a standing approval covers the call and the policy of the run accepts standing approvals.
pub(super) fn is_granted(
    tx: &mut Tx<'_>,
    run: &RunRow,
    request: &ApprovalRequest,
) -> Result<bool, EngineError> {
    // Which grant it is does not matter for the policy; `once` is never stored.
    if !GrantScope::Always.covers_later_calls(run.execution_policy()?.ask) {
        return Ok(false);
    }
    let scopes =
        [GrantScope::Run, GrantScope::Session, GrantScope::Always].map(|grant| scope(run, grant));
    let scopes: Vec<String> = scopes.into_iter().flatten().collect();
    Ok(approval_grant::covers(tx, &run.namespace, &scopes, &call_key(run, request))?)
}

/// Stores a standing approval, unless the grant covers only the approved call.
pub(super) fn store(
    tx: &mut Tx<'_>,
    run: &RunRow,
    approval: &ApprovalRow,
    grant: GrantScope,
    by: &str,
) -> Result<(), EngineError> {
    let Some(scope) = scope(run, grant) else { return Ok(()) };
    let request: ApprovalRequest = serde_json::from_str(&approval.request)?;
    let row = ApprovalGrantRow {
        namespace: run.namespace.clone(),
        scope,
        call_key: call_key(run, &request),
        plan: approval.plan.clone(),
        granted_by: by.to_owned(),
        created: tx.now(),
    };
    row.insert_new(tx)?;
    Ok(())
}

/// Returns the scope of a standing approval. `None` if the grant covers only one call.
fn scope(run: &RunRow, grant: GrantScope) -> Option<String> {
    match grant {
        GrantScope::Once => None,
        GrantScope::Run => Some(format!("run:{}", run.id)),
        GrantScope::Session => Some(format!("session:{}", run.session_id)),
        GrantScope::Always => Some(format!("agent:{}", run.agent)),
    }
}

/// Returns true if the grant is valid for the kind: only tool calls can have standing approvals.
pub(super) fn is_valid_grant(kind: ApprovalKind, grant: GrantScope) -> bool {
    grant == GrantScope::Once || kind == ApprovalKind::Tool
}
