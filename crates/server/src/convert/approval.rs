//! Questions on the wire.

use provost_api::{Approval, Decision, Grant, Problem, Tally, Time, Vote};
use provost_core::lifecycle::{self, ApprovalVotes};
use provost_store::table::governance::approval::ApprovalRow;
use provost_store::table::governance::approval_grant::ApprovalGrantRow;

use super::{stored, word};

/// A question as it stands.
pub(crate) fn view(row: ApprovalRow) -> Result<Approval, Problem> {
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
        tally: row.ballot.as_deref().map(stored).transpose()?.map(tally),
    })
}

/// How far several people are.
fn tally(ballot: ApprovalVotes) -> Tally {
    let have = u32::try_from(ballot.approved_by().len()).unwrap_or(u32::MAX);
    let awaited = ballot.pending_approvers().into_iter().map(str::to_owned).collect();
    let ApprovalVotes { approvers, requesters, votes } = ballot;
    let vote = |vote: lifecycle::Vote| Vote {
        by: vote.by,
        decision: if vote.approves { Decision::Approve } else { Decision::Deny },
        at: Time(vote.at),
    };
    Tally {
        needed: approvers.required,
        have,
        of: approvers.of,
        not: if approvers.exclude_requester { requesters } else { Vec::new() },
        awaited,
        votes: votes.into_iter().map(vote).collect(),
    }
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
