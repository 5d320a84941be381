//! Decisions: one transaction records and applies an answer; a late answer changes nothing.

use provost_agent::run::JournalEntry;
use provost_core::durable::{ApprovalDecided, DurableEvent};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{
    ApprovalKind, ApprovalResult, ApprovalTransition, GrantScope, RequestError, RunPhase,
    RunTransition, TaskTransition,
};
use provost_core::recovery::OutcomeCode;
use provost_core::scheduling::TimerKind;
use provost_core::usage::limits::{COMMAND_FIELD_BYTES_MAX, COMMAND_TEXT_BYTES_MAX};
use provost_core::{ApprovalDecision, ApprovalId, ApprovalRequest, ToolResult};
use provost_failpoint::failpoint;
use provost_store::table::governance::approval::{self, ApprovalRow};
use provost_store::table::governance::budget;
use provost_store::table::scheduling::timer;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::{run_join, task};
use provost_store::{Locked, Tx, Wakeup};
use serde_json::{Value, json};

use super::{ApprovalAnswer, ApprovalReceipt, append_while_parked, grant, vote};
use crate::approval::ask_user;
use crate::approval::request::reject_grant;
use crate::child;
use crate::error::EngineError;
use crate::run::end::{self, RunEnd};
use crate::run::event;
use crate::run::lifecycle::{transition_run, try_transition_task};
use crate::submit::queue;

/// The result of a call with an unknown outcome that a user decided not to repeat.
const NOT_REPEATED_RESULT: &str = "The outcome of this call is unknown after an interruption. A user reviewed the call and decided not to \
     repeat it. Do not repeat it.";
/// The denial reason of an approval that expired.
const EXPIRED_REASON: &str = "no approver answered in time";

/// Records and applies a decision of the event API, see [`answer`].
pub(crate) fn answer_decision(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: ApprovalId,
    decision: &ApprovalDecision,
    by: &str,
) -> Result<ApprovalReceipt, EngineError> {
    answer(tx, namespace, id, &ApprovalAnswer::from(decision), by)
}

/// Records and applies an answer to an approval of the namespace. If the approval was settled before, returns the
/// recorded decision.
pub(super) fn answer(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: ApprovalId,
    answer: &ApprovalAnswer,
    by: &str,
) -> Result<ApprovalReceipt, EngineError> {
    check_size("answer.by", by, COMMAND_FIELD_BYTES_MAX)?;
    if let ApprovalAnswer::Deny(text) | ApprovalAnswer::Text(text) = answer {
        check_size("answer.text", text, COMMAND_TEXT_BYTES_MAX)?;
    }
    let row = approval::find(tx, namespace.as_str(), id)?
        .ok_or_else(|| EngineError::not_found("approval", id))?;
    run::lock(tx, row.run_id)?;
    let row = approval::lock(tx, id)?.ok_or_else(|| EngineError::not_found("approval", id))?;
    match row.ballot {
        Some(_) => vote::vote(tx, row, answer, by),
        None => apply_answer(tx, row, answer, by),
    }
}

/// Fails if a text is larger than `max` bytes.
fn check_size(path: &str, text: &str, max: usize) -> Result<(), EngineError> {
    let bytes = text.len();
    if bytes <= max {
        return Ok(());
    }
    Err(RequestError::TooLarge { path: path.to_owned(), bytes, max }.into())
}

/// Answers the question that a run waits for with the text of a message. Returns false, without a change, if it waits
/// for no question.
pub(crate) fn answer_text(
    tx: &mut Tx<'_>,
    run: &RunRow,
    text: &str,
    by: &str,
) -> Result<bool, EngineError> {
    for row in approval::lock_open_of_run(tx, run.id)? {
        if row.kind == ApprovalKind::Question {
            return Ok(
                apply_answer(tx, row, &ApprovalAnswer::Text(text.to_owned()), by)?.is_recorded
            );
        }
    }
    Ok(false)
}

/// Settles an approval by its fallback, because it has expired. Does nothing if it is settled.
pub(crate) fn expire(tx: &mut Tx<'_>, id: ApprovalId) -> Result<(), EngineError> {
    let Some(row) = approval::get(tx, id)? else { return Ok(()) };
    run::lock(tx, row.run_id)?;
    let Some(row) = approval::lock(tx, id)? else { return Ok(()) };
    apply_answer(tx, row, &ApprovalAnswer::Expired, "expiry").map(drop)
}

/// Records and applies an answer. If the approval was settled before, returns the recorded decision.
pub(super) fn apply_answer(
    tx: &mut Tx<'_>,
    mut row: Locked<ApprovalRow>,
    answer: &ApprovalAnswer,
    by: &str,
) -> Result<ApprovalReceipt, EngineError> {
    let kind: ApprovalKind = row.kind;
    let event = match answer {
        ApprovalAnswer::Approve(_) => ApprovalTransition::Approve,
        ApprovalAnswer::Deny(_) => ApprovalTransition::Deny,
        ApprovalAnswer::Text(_) => ApprovalTransition::Answer,
        ApprovalAnswer::Expired => ApprovalTransition::Expire,
    };
    let state = match kind.resolve(row.state, event)? {
        ApprovalResult::AlreadyDecided(state) => {
            return Ok(ApprovalReceipt {
                id: row.id,
                state,
                is_recorded: false,
                by: row.decided_by.clone(),
            });
        }
        ApprovalResult::Applied(state) => state,
    };
    if let ApprovalAnswer::Approve(grant_scope) = answer
        && !grant::is_valid_grant(kind, *grant_scope)
    {
        return Err(reject_grant(kind));
    }
    let decision = decision(answer, &row)?;
    row.state = state;
    row.decision = Some(stored_form(answer, &decision).to_string());
    row.decided_by = Some(by.to_owned());
    row.decided = Some(tx.now());
    row.save(tx)?;
    timer::clear(tx, TimerKind::ApprovalExpiry, &row.id.to_string())?;
    apply_effect(tx, &row, kind, answer, &decision)?;
    failpoint!("approval.before_commit");
    Ok(ApprovalReceipt { id: row.id, state, is_recorded: true, by: row.decided_by.clone() })
}

/// Returns the decision that an answer makes. An expiry makes the decision of its fallback.
fn decision(answer: &ApprovalAnswer, row: &ApprovalRow) -> Result<ApprovalDecision, EngineError> {
    Ok(match answer {
        ApprovalAnswer::Approve(_) => match row.ballot()? {
            Some(ballot) => ApprovalDecision::ApprovedBy { by: ballot.approved_by() },
            None => ApprovalDecision::Approve,
        },
        ApprovalAnswer::Text(_) => ApprovalDecision::Approve,
        ApprovalAnswer::Deny(reason) => ApprovalDecision::Deny { reason: reason.clone() },
        ApprovalAnswer::Expired if row.fallback.allows(/*on_list*/ false) => {
            ApprovalDecision::Approve
        }
        ApprovalAnswer::Expired => ApprovalDecision::Deny { reason: EXPIRED_REASON.to_owned() },
    })
}

/// Returns the JSON that the approval row stores: the decision, or the answer if it contains a grant or a text.
fn stored_form(answer: &ApprovalAnswer, decision: &ApprovalDecision) -> Value {
    match answer {
        ApprovalAnswer::Approve(GrantScope::Once)
        | ApprovalAnswer::Deny(_)
        | ApprovalAnswer::Expired => json!(decision),
        ApprovalAnswer::Approve(grant) => json!({"answer": "approve", "grant": grant}),
        ApprovalAnswer::Text(text) => json!({"answer": "approve", "text": text}),
    }
}

/// The effect of a decision on its run.
enum ApprovalEffect {
    /// Appends an entry to the journal of the run.
    Append(Box<JournalEntry>),
    /// Lets the run continue.
    Resume,
    /// Ends the run.
    EndRun(OutcomeCode, String),
}

/// Stores a standing approval and applies the decision to the run: ends it, appends a result, or resumes it when
/// nothing else is pending. Does nothing else to a run that no longer waits.
fn apply_effect(
    tx: &mut Tx<'_>,
    row: &ApprovalRow,
    kind: ApprovalKind,
    answer: &ApprovalAnswer,
    decision: &ApprovalDecision,
) -> Result<(), EngineError> {
    let Some(mut run) = run::lock(tx, row.run_id)? else { return Ok(()) };
    let by = row.decided_by.as_deref().unwrap_or_default();
    if let ApprovalAnswer::Approve(grant_scope) = answer {
        grant::store(tx, &run, row, *grant_scope, by)?;
    }
    if run.phase != RunPhase::Parked || run.cancel_requested.is_some() {
        // The decision is recorded, but the run no longer waits for it.
        return Ok(());
    }
    let effect = effect(tx, row, kind, answer, decision)?;
    let (id, decision, by) = (row.id, decision.clone(), Some(by.to_owned()));
    let decided = ApprovalDecided { id, decision, by };
    event::append_event(tx, &mut run, DurableEvent::ApprovalDecided(decided))?;
    match effect {
        ApprovalEffect::EndRun(code, detail) => {
            return end::end_run(tx, &mut run, &RunEnd::with_code(code, detail));
        }
        ApprovalEffect::Append(entry) => append_while_parked(tx, &mut run, &entry)?,
        ApprovalEffect::Resume => {}
    }
    if approval::open_of_run(tx, run.id)?.is_empty() {
        if !run_join::has_any(tx, run.id)? {
            return resume_run(tx, &mut run);
        }
        child::join::mark_waiting_for_children(tx, &mut run)?;
    }
    run.save(tx)?;
    Ok(())
}

/// Returns the effect of an answer on the run, which depends on the kind of the approval. Raises the budget if that
/// was approved.
fn effect(
    tx: &mut Tx<'_>,
    row: &ApprovalRow,
    kind: ApprovalKind,
    answer: &ApprovalAnswer,
    decision: &ApprovalDecision,
) -> Result<ApprovalEffect, EngineError> {
    use ApprovalKind as K;
    let is_approved = decision.is_approved();
    let request: ApprovalRequest = serde_json::from_str(&row.request)?;
    let call = &request.call;
    Ok(match (kind, answer) {
        (K::EffectUnknown | K::Question, ApprovalAnswer::Text(text)) => {
            append_result(tx, ToolResult::text(call, text.clone()))
        }
        (K::EffectUnknown, _) if !is_approved => {
            append_result(tx, ToolResult::error(call, NOT_REPEATED_RESULT))
        }
        (K::Question, ApprovalAnswer::Expired) => {
            append_result(tx, ToolResult::text(call, ask_user::NO_ANSWER))
        }
        (K::Question, _) => {
            let reason = match decision {
                ApprovalDecision::Deny { reason } => reason.as_str(),
                ApprovalDecision::Approve | ApprovalDecision::ApprovedBy { .. } => "",
            };
            append_result(tx, ToolResult::text(call, ask_user::declined_result(reason)))
        }
        (K::Tool | K::EffectUnknown, _) => {
            ApprovalEffect::Append(Box::new(JournalEntry::ApprovalDecided {
                id: row.id,
                decision: decision.clone(),
            }))
        }
        (K::BudgetRaise, _) if is_approved => {
            raise_budget(tx, row)?;
            ApprovalEffect::Resume
        }
        (K::BudgetRaise, _) => ApprovalEffect::EndRun(
            OutcomeCode::BudgetExceeded,
            "the budget was not increased".to_owned(),
        ),
        (K::Start | K::Plan, _) => match decision {
            ApprovalDecision::Approve | ApprovalDecision::ApprovedBy { .. } => {
                ApprovalEffect::Resume
            }
            ApprovalDecision::Deny { reason } => {
                let code = match answer {
                    ApprovalAnswer::Expired => OutcomeCode::ApprovalExpired,
                    _ => OutcomeCode::ApprovalDenied,
                };
                ApprovalEffect::EndRun(code, reason.clone())
            }
        },
    })
}

/// Returns the effect that appends a tool result to the journal.
fn append_result(tx: &Tx<'_>, result: ToolResult) -> ApprovalEffect {
    let entry = JournalEntry::ToolFinished {
        result: Box::new(result),
        invalid_arguments: false,
        at: tx.now(),
    };
    ApprovalEffect::Append(Box::new(entry))
}

/// Raises the budget by the amount that the approval requested.
fn raise_budget(tx: &mut Tx<'_>, row: &ApprovalRow) -> Result<(), EngineError> {
    let plan: Value = serde_json::from_str(&row.plan)?;
    let scope = plan["scope"].as_str().unwrap_or_default();
    let micros = plan["raise_micros"].as_i64().unwrap_or_default();
    budget::raise(tx, &row.namespace, scope, micros)?;
    Ok(())
}

/// Requeues a parked run, because everything that it waited for has arrived. Saves the run and updates its task.
pub(crate) fn resume_run(tx: &mut Tx<'_>, run: &mut Locked<RunRow>) -> Result<(), EngineError> {
    transition_run(run, RunTransition::Woken)?;
    let now = tx.now();
    queue::schedule(tx, run, now)?;
    run.save(tx)?;
    if let Some(mut task) = task::lock(tx, run.task_id)? {
        task.waiting_for = None;
        task.save(tx)?;
        let _applied = try_transition_task(tx, &mut task, TaskTransition::Requeued)?;
    }
    tx.wake(Wakeup::Approval(run.id));
    queue::refresh(tx, &run.namespace, &run.session_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_kept_in_a_form_that_says_what_it_was() {
        let approve = ApprovalDecision::Approve;
        assert_eq!(
            stored_form(&ApprovalAnswer::Approve(GrantScope::Once), &approve),
            json!({"answer": "approve"})
        );
        let always = stored_form(&ApprovalAnswer::Approve(GrantScope::Always), &approve);
        assert_eq!(always, json!({"answer": "approve", "grant": "always"}));
        let words = stored_form(&ApprovalAnswer::Text("blue".to_owned()), &approve);
        assert_eq!(words, json!({"answer": "approve", "text": "blue"}));
    }
}
