//! Questions on the wire.

use provost_api::{Approval, Grant, Problem, Time};
use provost_store::row::approval::ApprovalRow;
use provost_store::row::approval_grant::ApprovalGrantRow;

use super::{stored, word};

/// A question as it stands.
pub(crate) fn approval(row: ApprovalRow) -> Result<Approval, Problem> {
    Ok(Approval {
        id: row.id,
        task: row.task_id,
        run: row.run_id,
        step: row.step,
        kind: word(&row.kind)?,
        state: word(&row.state)?,
        request: stored(&row.request)?,
        plan: stored(&row.plan)?,
        decision: row.decision.as_deref().map(stored).transpose()?,
        decided_by: row.decided_by,
        decided: row.decided.map(Time),
        expires: Time(row.expires),
        fallback: word(&row.fallback)?,
        created: Time(row.created),
    })
}

/// A yes that reaches further than one call.
pub(crate) fn grant(row: ApprovalGrantRow) -> Result<Grant, Problem> {
    Ok(Grant {
        scope: row.scope,
        call_key: row.call_key,
        plan: stored(&row.plan)?,
        granted_by: row.granted_by,
        created: Time(row.created),
    })
}
