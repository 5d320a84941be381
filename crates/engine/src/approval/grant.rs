//! A yes that reaches further than one call.

use provost_core::ApprovalRequest;
use provost_core::lifecycle::{ApprovalKind, Grant};
use provost_store::Tx;
use provost_store::table::governance::approval::ApprovalRow;
use provost_store::table::governance::approval_grant::{self, ApprovalGrantRow};
use provost_store::table::work::run::RunRow;

use super::plan::call_key;
use crate::error::EngineError;
use crate::run::lifecycle::policy;

/// True if such a call was granted before and its policy lets that count.
pub(super) fn is_granted(
    tx: &mut Tx<'_>,
    run: &RunRow,
    request: &ApprovalRequest,
) -> Result<bool, EngineError> {
    // The reach of the grant does not matter for what silences it; `once` is never stored.
    if !Grant::Always.silences(policy(run)?.ask) {
        return Ok(false);
    }
    let scopes = [Grant::Run, Grant::Session, Grant::Always].map(|grant| scope(run, grant));
    let scopes: Vec<String> = scopes.into_iter().flatten().collect();
    Ok(approval_grant::covers(tx, &run.namespace, &scopes, &call_key(run, request))?)
}

/// Remembers a yes that reaches further than the call it was about.
pub(super) fn store(
    tx: &mut Tx<'_>,
    run: &RunRow,
    approval: &ApprovalRow,
    grant: Grant,
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

fn scope(run: &RunRow, grant: Grant) -> Option<String> {
    match grant {
        Grant::Once => None,
        Grant::Run => Some(format!("run:{}", run.id)),
        Grant::Session => Some(format!("session:{}", run.session_id)),
        Grant::Always => Some(format!("agent:{}", run.agent)),
    }
}

/// Only a question about one exact call can be granted for more than that call.
pub(super) fn can_reach(kind: ApprovalKind, grant: Grant) -> bool {
    grant == Grant::Once || kind == ApprovalKind::Tool
}
