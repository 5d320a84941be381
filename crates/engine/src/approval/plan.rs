//! The plan that an approval is bound to, and the check that a call still matches it.

use provost_agent::journal::ToolEffect;
use provost_core::lifecycle::{ApprovalKind, ApprovalState, check_plan, plan_hash};
use provost_core::resource::Approvers;
use provost_core::{ApprovalRequest, ToolCall};
use provost_store::Tx;
use provost_store::table::governance::approval::{self, ApprovalRow};
use provost_store::table::work::run::{self, RunRow};
use serde_json::{Value, json};

use crate::error::EngineError;
use crate::worker::lease::Lease;

/// Returns the plan that a user sees and that will run: the run and its agent, the tool, its arguments, the reason,
/// and the policy.
pub(super) fn plan_of(run: &RunRow, request: &ApprovalRequest) -> Value {
    let revision = request.policy_revision.as_deref();
    plan(run, request, &request.call, &arguments(&request.call), revision)
}

/// Returns the JSON that describes a call to its approver, and whose hash binds the approval to exactly this call.
fn plan(
    run: &RunRow,
    request: &ApprovalRequest,
    call: &ToolCall,
    arguments: &Value,
    policy_revision: Option<&str>,
) -> Value {
    let mut plan = json!({
        "run": run.id, "agent": run.agent, "agent_revision": run.agent_revision,
        "tool": call.name, "call_id": call.id, "arguments": arguments,
        "hint": request.hint, "payload": request.payload,
    });
    // Without a policy the plan has the form, and so the hash, that it had before policies existed.
    if let (Some(revision), Some(plan)) = (policy_revision, plan.as_object_mut()) {
        plan.insert("policy_revision".to_owned(), revision.into());
    }
    plan
}

/// Parses the arguments, so that whitespace and key order do not affect the hash. Arguments that are not JSON become a
/// string.
fn arguments(call: &ToolCall) -> Value {
    call.parse_arguments().unwrap_or_else(|_| Value::String(call.arguments.clone()))
}

/// Returns the key that equal calls of different runs share. A standing approval is stored under it.
pub(super) fn call_key(run: &RunRow, request: &ApprovalRequest) -> String {
    plan_hash(&json!({
        "agent": run.agent, "tool": request.call.name, "arguments": arguments(&request.call),
        "hint": request.hint, "payload": request.payload,
        // An approval does not outlive the policy that required it.
        "policy_revision": request.policy_revision,
    }))
}

/// The approval status of a call that is about to run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ApprovalStatus {
    /// True if the call differs from the approved plan.
    pub(crate) changed: bool,
    /// The lost try after which a user allowed a repeat.
    pub(crate) repeat_after_try: Option<u64>,
    /// The required approvers. The users who approved the call also decide about its repetition.
    pub(crate) approvers: Option<Box<Approvers>>,
}

/// Compares a call that is about to run with its approvals: whether its plan has changed, and whether a repetition is
/// approved.
pub(crate) fn approval_status(
    tx: &mut Tx<'_>,
    lease: &Lease,
    effect: &ToolEffect,
) -> Result<ApprovalStatus, EngineError> {
    let mut status = ApprovalStatus::default();
    if effect.approvals.is_empty() {
        return Ok(status);
    }
    let run = run::get(tx, lease.run)?.ok_or_else(|| EngineError::not_found("run", lease.run))?;
    for id in &effect.approvals {
        let Some(row) = approval::get(tx, *id)? else {
            status.changed = true;
            continue;
        };
        let request: ApprovalRequest = serde_json::from_str(&row.request)?;
        let revision = request.policy_revision.as_ref().and(effect.policy_revision.as_deref());
        let now = plan(&run, &request, &effect.call, &effect.arguments, revision);
        status.changed |= check_plan(&row.plan_hash, &now).is_err();
        if allows_repetition(&row)? {
            let lost_try = request.payload.as_ref().and_then(|payload| payload["try"].as_u64());
            status.repeat_after_try = status.repeat_after_try.max(lost_try);
        }
        status.approvers = request.approvers.or(status.approvers);
    }
    Ok(status)
}

/// Returns true if the approval permits the repetition of a call with an unknown outcome.
fn allows_repetition(row: &ApprovalRow) -> Result<bool, EngineError> {
    let request = row.kind == ApprovalKind::EffectUnknown;
    Ok(request && row.state == ApprovalState::Approved)
}
