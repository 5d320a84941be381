//! Approvals with a quorum or named approvers: each answer is a vote, and the deciding vote applies the decision.

use provost_core::command::TaskRequest;
use provost_core::durable::{ApprovalVote, DurableEvent, VoteChoice};
use provost_core::lifecycle::{
    ApprovalKind, ApprovalResult, ApprovalState, ApprovalTransition, ApprovalVotes, GrantScope,
    RequestError, RunPhase, VoteResult,
};
use provost_core::{ApprovalRequest, RunId};
use provost_store::table::governance::approval::ApprovalRow;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::{input, task};
use provost_store::{Locked, Tx};

use super::{ApprovalAnswer, ApprovalReceipt, decide};
use crate::error::EngineError;
use crate::input::MessageOrigin;
use crate::run::event;

/// Ancestors that are searched for the requesters of a run.
const ANCESTORS_MAX: usize = 64;

/// Returns the votes of a new approval. `None` if one approval of any user is enough.
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
    for _ in 0..ANCESTORS_MAX {
        let Some((id, task_id, parent)) = next.take() else { return Ok(found) };
        let mut names = message_authors(tx, id)?;
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
        let parent_task = task.and_then(|task| task.parent_task_id).filter(|_| parent.is_none());
        let parent_task = parent_task.map(|task| task::get(tx, task)).transpose()?.flatten();
        let parent = parent.or_else(|| parent_task.and_then(|task| task.current_run_id));
        let row = parent.map(|id| run::get(tx, id)).transpose()?.flatten();
        next = row.map(|row| (row.id, row.task_id, row.parent_run_id));
    }
    Err(EngineError::Unreadable(format!("more than {ANCESTORS_MAX} ancestors of {}", run.id)))
}

/// Returns the authors of the messages of a run.
fn message_authors(tx: &mut Tx<'_>, run: RunId) -> Result<Vec<String>, EngineError> {
    let mut names = Vec::new();
    for row in input::of_run(tx, run)? {
        names.extend(MessageOrigin::of(&row)?.by);
    }
    Ok(names)
}

/// Records one vote. A repeated equal vote returns the same result. The deciding vote settles the approval.
pub(super) fn vote(
    tx: &mut Tx<'_>,
    mut row: Locked<ApprovalRow>,
    answer: &ApprovalAnswer,
    by: &str,
) -> Result<ApprovalReceipt, EngineError> {
    let kind: ApprovalKind = row.kind;
    let state: ApprovalState = row.state;
    let (event, approves) = match answer {
        ApprovalAnswer::Approve(_) => (ApprovalTransition::Approve, true),
        ApprovalAnswer::Deny(_) => (ApprovalTransition::Deny, false),
        ApprovalAnswer::Text(_) => (ApprovalTransition::Answer, false),
        ApprovalAnswer::Expired => return decide::apply_answer(tx, row, answer, by),
    };
    let resolution = kind.resolve(state, event)?;
    if let ApprovalAnswer::Approve(grant) = answer
        && *grant != GrantScope::Once
    {
        let problem = "a quorum decides about this call only";
        return Err(RequestError::invalid("grant", problem, "use `once`").into());
    }
    let missing = || EngineError::bug("a vote without a ballot");
    let mut ballot = row.ballot()?.ok_or_else(missing)?;
    let repeated =
        ballot.vote_of(by).map(|first| first.check_repeat(approves)).transpose()?.is_some();
    if repeated || matches!(resolution, ApprovalResult::AlreadyDecided(_)) {
        return Ok(ApprovalReceipt {
            id: row.id,
            state,
            is_recorded: repeated,
            by: row.decided_by.clone(),
        });
    }
    let result = ballot.cast(by, approves, tx.now())?;
    row.ballot = Some(serde_json::to_string(&ballot)?);
    append_vote(tx, &row, &ballot)?;
    match result {
        VoteResult::Approved | VoteResult::Denied => decide::apply_answer(tx, row, answer, by),
        VoteResult::Pending => {
            row.save(tx)?;
            Ok(ApprovalReceipt { id: row.id, state, is_recorded: true, by: None })
        }
    }
}

/// Appends the latest vote to the event log of the run. Does nothing if the run is no longer parked.
fn append_vote(
    tx: &mut Tx<'_>,
    row: &ApprovalRow,
    ballot: &ApprovalVotes,
) -> Result<(), EngineError> {
    let Some(mut run) = run::lock(tx, row.run_id)? else { return Ok(()) };
    let Some(vote) = ballot.votes.last() else { return Ok(()) };
    if run.phase != RunPhase::Parked || run.cancel_requested.is_some() {
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
