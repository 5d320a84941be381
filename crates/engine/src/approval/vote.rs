//! Approvals with a quorum or named approvers: each answer is a vote, and the deciding vote applies the decision.

use provost_core::command::TaskRequest;
use provost_core::durable::{ApprovalVote, DurableEvent, VoteChoice};
use provost_core::lifecycle::{
    ApprovalKind, ApprovalResult, ApprovalState, ApprovalTransition, ApprovalVotes, GrantScope,
    RequestError, VoteResult,
};
use provost_core::{ApprovalRequest, RunId};
use provost_store::table::governance::approval::ApprovalRow;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::{input, task};
use provost_store::{Locked, Tx};

use super::{Answered, Said, decide};
use crate::error::EngineError;
use crate::input::Origin;
use crate::run::event;
use crate::run::lifecycle::word;

/// Ancestors that are searched for the requesters of a run.
const ABOVE_MAX: usize = 64;

/// Returns the votes of a new approval, or `None` if one approval of any user is enough.
pub(super) fn new_ballot(
    tx: &mut Tx<'_>,
    run: &RunRow,
    request: &ApprovalRequest,
) -> Result<Option<ApprovalVotes>, EngineError> {
    let Some(approvers) = request.approvers.as_deref().filter(|needed| !needed.is_default()) else {
        return Ok(None);
    };
    Ok(Some(ApprovalVotes::new(approvers.clone(), requesters(tx, run)?)))
}

/// Returns the requesters of a run: the principals that submitted its task or sent it a message, and those of all its
/// ancestors.
fn requesters(tx: &mut Tx<'_>, run: &RunRow) -> Result<Vec<String>, EngineError> {
    let mut found: Vec<String> = Vec::new();
    let mut next = Some((run.id, run.task_id, run.parent_run_id));
    for _ in 0..ABOVE_MAX {
        let Some((id, task_id, parent)) = next.take() else { return Ok(found) };
        let mut names = said_by(tx, id)?;
        let task = task::get(tx, task_id)?;
        if let Some(task) = &task {
            let command: TaskRequest = serde_json::from_str(&task.command)?;
            names.extend(command.requested_by);
        }
        for name in names {
            if !found.contains(&name) {
                found.push(name);
            }
        }
        // A later run of a child's task has no parent run, but its task has a parent task.
        let above = task.and_then(|task| task.parent_task_id).filter(|_| parent.is_none());
        let above = above.map(|task| task::get(tx, task)).transpose()?.flatten();
        let parent = parent.or_else(|| above.and_then(|task| task.current_run_id));
        let row = parent.map(|id| run::get(tx, id)).transpose()?.flatten();
        next = row.map(|row| (row.id, row.task_id, row.parent_run_id));
    }
    Err(EngineError::Unreadable(format!("more than {ABOVE_MAX} runs are above {}", run.id)))
}

/// Returns the authors of the messages of a run.
fn said_by(tx: &mut Tx<'_>, run: RunId) -> Result<Vec<String>, EngineError> {
    let mut names = Vec::new();
    for row in input::of_run(tx, run)? {
        names.extend(Origin::of(&row)?.by);
    }
    Ok(names)
}

/// Records one vote. A repeated equal vote returns the same result. The deciding vote settles the approval.
pub(super) fn vote(
    tx: &mut Tx<'_>,
    mut row: Locked<ApprovalRow>,
    said: &Said,
    by: &str,
) -> Result<Answered, EngineError> {
    let kind: ApprovalKind = word(&row.kind)?;
    let state: ApprovalState = word(&row.state)?;
    let (event, approves) = match said {
        Said::Yes(_) => (ApprovalTransition::Approve, true),
        Said::No(_) => (ApprovalTransition::Deny, false),
        Said::Words(_) => (ApprovalTransition::Answer, false),
        Said::Nothing => return decide::decide(tx, row, said, by),
    };
    let resolution = kind.resolve(state, event)?;
    if let Said::Yes(reach) = said
        && *reach != GrantScope::Once
    {
        let problem = "several people decide about this call, and only about this one";
        return Err(RequestError::invalid("grant", problem, "use `once`").into());
    }
    let missing = || EngineError::bug("a vote without a ballot");
    let mut ballot = row.ballot()?.ok_or_else(missing)?;
    let repeated =
        ballot.vote_of(by).map(|first| first.check_repeat(approves)).transpose()?.is_some();
    if repeated || matches!(resolution, ApprovalResult::AlreadyDecided(_)) {
        return Ok(Answered { id: row.id, state, counted: repeated, by: row.decided_by.clone() });
    }
    let poll = ballot.cast(by, approves, tx.now())?;
    row.ballot = Some(serde_json::to_string(&ballot)?);
    append_vote(tx, &row, &ballot)?;
    match poll {
        VoteResult::Approved | VoteResult::Denied => decide::decide(tx, row, said, by),
        VoteResult::Pending => {
            row.save(tx)?;
            Ok(Answered { id: row.id, state, counted: true, by: None })
        }
    }
}

/// Appends the latest vote to the event log of a run that is still parked.
fn append_vote(
    tx: &mut Tx<'_>,
    row: &ApprovalRow,
    ballot: &ApprovalVotes,
) -> Result<(), EngineError> {
    let Some(mut run) = run::lock(tx, row.run_id)? else { return Ok(()) };
    let Some(vote) = ballot.votes.last() else { return Ok(()) };
    if run.phase != "parked" || run.cancel_requested.is_some() {
        return Ok(());
    }
    let vote = ApprovalVote {
        id: row.id,
        by: vote.by.clone(),
        answer: if vote.approves { VoteChoice::Approve } else { VoteChoice::Deny },
        have: ballot.approved_by().len() as u64,
        needed: u64::from(ballot.approvers.required),
    };
    event::append_event(tx, &mut run, DurableEvent::ApprovalVote(vote))?;
    run.save(tx)?;
    Ok(())
}
