//! Converts approvals.

use provost_api::{Approval, DateTime, Decision, Problem, StandingApproval, Vote, VoteCount};
use provost_core::lifecycle::{self, ApprovalVotes};
use provost_store::table::governance::approval::ApprovalRow;
use provost_store::table::governance::approval_grant::ApprovalGrantRow;

use super::parse_json;

/// Converts an approval.
pub(crate) fn view(row: ApprovalRow) -> Result<Approval, Problem> {
    Ok(Approval {
        id: row.id,
        task: row.task_id,
        run: row.run_id,
        step: row.step,
        kind: row.kind,
        state: row.state,
        request: parse_json(&row.request)?,
        plan: parse_json(&row.plan)?,
        decision: row.decision.as_deref().map(parse_json).transpose()?,
        decided_by: row.decided_by,
        decided: row.decided.map(DateTime),
        expires: DateTime(row.expires),
        fallback: row.fallback,
        created: DateTime(row.created),
        vote_count: row.ballot.as_deref().map(parse_json).transpose()?.map(vote_count),
    })
}

/// Converts the votes on an approval.
fn vote_count(ballot: ApprovalVotes) -> VoteCount {
    let approved = u32::try_from(ballot.approved_by().len()).unwrap_or(u32::MAX);
    let missing_approvers = ballot.pending_approvers().into_iter().map(str::to_owned).collect();
    let ApprovalVotes { approvers, requesters, votes } = ballot;
    let vote = |vote: lifecycle::Vote| Vote {
        by: vote.by,
        decision: if vote.approves { Decision::Approve } else { Decision::Deny },
        at: DateTime(vote.at),
    };
    VoteCount {
        required: approvers.required,
        approved,
        approvers: approvers.of,
        excluded: if approvers.exclude_requester { requesters } else { Vec::new() },
        missing_approvers,
        votes: votes.into_iter().map(vote).collect(),
    }
}

/// Converts a standing approval.
pub(crate) fn standing(row: ApprovalGrantRow) -> Result<StandingApproval, Problem> {
    Ok(StandingApproval {
        scope: row.scope,
        call_key: row.call_key,
        plan: parse_json(&row.plan)?,
        granted_by: row.granted_by,
        created: DateTime(row.created),
    })
}
