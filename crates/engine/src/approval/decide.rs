//! Decisions: one transaction records and applies an answer; a late answer changes nothing.

use provost_agent::run::JournalEntry;
use provost_core::durable::{ApprovalDecided, DurableEvent};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{
    ApprovalKind, ApprovalResult, ApprovalTimeoutAction, ApprovalTransition, GrantScope,
    RequestError, RunTransition, TaskTransition,
};
use provost_core::recovery::OutcomeCode;
use provost_core::usage::limits::{COMMAND_FIELD_BYTES_MAX, COMMAND_TEXT_BYTES_MAX};
use provost_core::{ApprovalDecision, ApprovalId, ApprovalRequest, ToolResult};
use provost_failpoint::failpoint;
use provost_store::table::governance::approval::{self, ApprovalRow};
use provost_store::table::governance::budget;
use provost_store::table::scheduling::timer;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::{run_join, task};
use provost_store::{Hint, Locked, Tx};
use serde_json::{Value, json};

use super::{Answered, EXPIRY, Said, feed_parked, grant, vote};
use crate::approval::ask_user;
use crate::approval::request::refuse_grant;
use crate::error::EngineError;
use crate::run::end::{self, Ending};
use crate::run::event;
use crate::run::lifecycle::{move_run, move_task, word};
use crate::{child, queue};

/// The result of a call with an unknown outcome that a user decided not to repeat.
const LEFT_RESULT: &str = "A person looked at this call, whose outcome was unknown after an interruption, and decided to leave it \
     as it is. Do not repeat it.";
/// The denial reason of an approval that expired.
const NOBODY: &str = "nobody answered in time";

/// Answers an approval with a decision.
pub(crate) fn answer(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: ApprovalId,
    decision: &ApprovalDecision,
    by: &str,
) -> Result<Answered, EngineError> {
    say(tx, namespace, id, &Said::from(decision), by)
}

/// Answers an approval.
pub(super) fn say(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: ApprovalId,
    said: &Said,
    by: &str,
) -> Result<Answered, EngineError> {
    check_size("answer.by", by, COMMAND_FIELD_BYTES_MAX)?;
    if let Said::No(text) | Said::Words(text) = said {
        check_size("answer.text", text, COMMAND_TEXT_BYTES_MAX)?;
    }
    let row = approval::find(tx, namespace.as_str(), id)?
        .ok_or_else(|| EngineError::not_found("approval", id))?;
    run::lock(tx, row.run_id)?;
    let row = approval::lock(tx, id)?.ok_or_else(|| EngineError::not_found("approval", id))?;
    match row.ballot {
        Some(_) => vote::vote(tx, row, said, by),
        None => decide(tx, row, said, by),
    }
}

fn check_size(path: &str, text: &str, max: usize) -> Result<(), EngineError> {
    let bytes = text.len();
    if bytes <= max {
        return Ok(());
    }
    Err(RequestError::TooLarge { path: path.to_owned(), bytes, max }.into())
}

/// Answers the question that a run waits for with the text of a message. Returns false if it waits for no question.
pub(crate) fn answer_in_words(
    tx: &mut Tx<'_>,
    run: &RunRow,
    text: &str,
    by: &str,
) -> Result<bool, EngineError> {
    for row in approval::lock_open_of_run(tx, run.id)? {
        if word::<ApprovalKind>(&row.kind)? == ApprovalKind::Question {
            return Ok(decide(tx, row, &Said::Words(text.to_owned()), by)?.counted);
        }
    }
    Ok(false)
}

/// Settles an approval that has expired by its fallback.
pub(crate) fn expire(tx: &mut Tx<'_>, id: ApprovalId) -> Result<(), EngineError> {
    let Some(row) = approval::get(tx, id)? else { return Ok(()) };
    run::lock(tx, row.run_id)?;
    let Some(row) = approval::lock(tx, id)? else { return Ok(()) };
    decide(tx, row, &Said::Nothing, "expiry").map(drop)
}

/// Records and applies an answer. If the approval was settled before, returns the recorded decision.
pub(super) fn decide(
    tx: &mut Tx<'_>,
    mut row: Locked<ApprovalRow>,
    said: &Said,
    by: &str,
) -> Result<Answered, EngineError> {
    let kind: ApprovalKind = word(&row.kind)?;
    let event = match said {
        Said::Yes(_) => ApprovalTransition::Approve,
        Said::No(_) => ApprovalTransition::Deny,
        Said::Words(_) => ApprovalTransition::Answer,
        Said::Nothing => ApprovalTransition::Expire,
    };
    let state = match kind.resolve(word(&row.state)?, event)? {
        ApprovalResult::AlreadyDecided(state) => {
            return Ok(Answered { id: row.id, state, counted: false, by: row.decided_by.clone() });
        }
        ApprovalResult::Applied(state) => state,
    };
    if let Said::Yes(reach) = said
        && !grant::can_reach(kind, *reach)
    {
        return Err(refuse_grant(kind));
    }
    let decision = decision(said, &row)?;
    row.state = state.as_str().to_owned();
    row.decision = Some(recorded(said, &decision).to_string());
    row.decided_by = Some(by.to_owned());
    row.decided = Some(tx.now());
    row.save(tx)?;
    timer::clear(tx, EXPIRY, &row.id.to_string())?;
    carry_out(tx, &row, kind, said, &decision)?;
    failpoint!("approval.before_commit");
    Ok(Answered { id: row.id, state, counted: true, by: row.decided_by.clone() })
}

/// Returns the decision that an answer or an expiry stands for.
fn decision(said: &Said, row: &ApprovalRow) -> Result<ApprovalDecision, EngineError> {
    Ok(match said {
        Said::Yes(_) => match row.ballot()? {
            Some(ballot) => ApprovalDecision::ApprovedBy { by: ballot.approved_by() },
            None => ApprovalDecision::Approve,
        },
        Said::Words(_) => ApprovalDecision::Approve,
        Said::No(reason) => ApprovalDecision::Deny { reason: reason.clone() },
        Said::Nothing
            if word::<ApprovalTimeoutAction>(&row.fallback)?.allows(/*on_list*/ false) =>
        {
            ApprovalDecision::Approve
        }
        Said::Nothing => ApprovalDecision::Deny { reason: NOBODY.to_owned() },
    })
}

/// Returns the answer in its stored form.
fn recorded(said: &Said, decision: &ApprovalDecision) -> Value {
    match said {
        Said::Yes(GrantScope::Once) | Said::No(_) | Said::Nothing => json!(decision),
        Said::Yes(grant) => json!({"answer": "approve", "grant": grant}),
        Said::Words(text) => json!({"answer": "approve", "text": text}),
    }
}

/// The effect of a decision on its run.
enum Consequence {
    /// Appends an entry to the journal of the run.
    Feed(Box<JournalEntry>),
    /// Lets the run continue.
    GoOn,
    /// Ends the run.
    End(OutcomeCode, String),
}

fn carry_out(
    tx: &mut Tx<'_>,
    row: &ApprovalRow,
    kind: ApprovalKind,
    said: &Said,
    decision: &ApprovalDecision,
) -> Result<(), EngineError> {
    let Some(mut run) = run::lock(tx, row.run_id)? else { return Ok(()) };
    let by = row.decided_by.as_deref().unwrap_or_default();
    if let Said::Yes(reach) = said {
        grant::store(tx, &run, row, *reach, by)?;
    }
    if run.phase != "parked" || run.cancel_requested.is_some() {
        // The decision is recorded, but the run no longer waits for it.
        return Ok(());
    }
    let consequence = consequence(tx, row, kind, said, decision)?;
    let (id, decision, by) = (row.id, decision.clone(), Some(by.to_owned()));
    let decided = ApprovalDecided { id, decision, by };
    event::append_event(tx, &mut run, DurableEvent::ApprovalDecided(decided))?;
    match consequence {
        Consequence::End(code, detail) => {
            return end::end_run(tx, &mut run, &Ending::because(code, detail));
        }
        Consequence::Feed(feed) => feed_parked(tx, &mut run, &feed)?,
        Consequence::GoOn => {}
    }
    if approval::open_of_run(tx, run.id)?.is_empty() {
        if !run_join::has_any(tx, run.id)? {
            return wake(tx, &mut run);
        }
        child::join::waits_only_for_children(tx, &mut run)?;
    }
    run.save(tx)?;
    Ok(())
}

/// Returns the effect of an answer, which depends on the kind of the approval.
fn consequence(
    tx: &mut Tx<'_>,
    row: &ApprovalRow,
    kind: ApprovalKind,
    said: &Said,
    decision: &ApprovalDecision,
) -> Result<Consequence, EngineError> {
    use ApprovalKind as K;
    let yes = decision.is_approved();
    let request: ApprovalRequest = serde_json::from_str(&row.request)?;
    let call = &request.call;
    Ok(match (kind, said) {
        (K::EffectUnknown | K::Question, Said::Words(text)) => {
            finished(tx, ToolResult::text(call, text.clone()))
        }
        (K::EffectUnknown, _) if !yes => finished(tx, ToolResult::error(call, LEFT_RESULT)),
        (K::Question, Said::Nothing) => finished(tx, ToolResult::text(call, ask_user::NO_ANSWER)),
        (K::Question, _) => {
            let reason = match decision {
                ApprovalDecision::Deny { reason } => reason.as_str(),
                ApprovalDecision::Approve | ApprovalDecision::ApprovedBy { .. } => "",
            };
            finished(tx, ToolResult::text(call, ask_user::refusal(reason)))
        }
        (K::Tool | K::EffectUnknown, _) => {
            Consequence::Feed(Box::new(JournalEntry::ApprovalDecided {
                id: row.id,
                decision: decision.clone(),
            }))
        }
        (K::BudgetRaise, _) if yes => {
            raise_budget(tx, row)?;
            Consequence::GoOn
        }
        (K::BudgetRaise, _) => {
            Consequence::End(OutcomeCode::BudgetExceeded, "no more money was given".to_owned())
        }
        (K::Start | K::Plan, _) => match decision {
            ApprovalDecision::Approve | ApprovalDecision::ApprovedBy { .. } => Consequence::GoOn,
            ApprovalDecision::Deny { reason } => {
                let code = match said {
                    Said::Nothing => OutcomeCode::ApprovalExpired,
                    _ => OutcomeCode::ApprovalDenied,
                };
                Consequence::End(code, reason.clone())
            }
        },
    })
}

fn finished(tx: &Tx<'_>, result: ToolResult) -> Consequence {
    let feed = JournalEntry::ToolFinished {
        result: Box::new(result),
        invalid_arguments: false,
        at: tx.now(),
    };
    Consequence::Feed(Box::new(feed))
}

fn raise_budget(tx: &mut Tx<'_>, row: &ApprovalRow) -> Result<(), EngineError> {
    let plan: Value = serde_json::from_str(&row.plan)?;
    let scope = plan["scope"].as_str().unwrap_or_default();
    let micros = plan["raise_micros"].as_i64().unwrap_or_default();
    budget::raise(tx, &row.namespace, scope, micros)?;
    Ok(())
}

/// Returns a parked run to the queue: everything that it waited for has arrived.
pub(crate) fn wake(tx: &mut Tx<'_>, run: &mut Locked<RunRow>) -> Result<(), EngineError> {
    move_run(run, RunTransition::Woken)?;
    let now = tx.now();
    queue::schedule(tx, run, now)?;
    run.save(tx)?;
    if let Some(mut task) = task::lock(tx, run.task_id)? {
        task.waiting_for = None;
        task.save(tx)?;
        move_task(tx, &mut task, TaskTransition::Requeued)?;
    }
    tx.hint(Hint::Approval(run.id));
    queue::refresh(tx, &run.namespace, &run.session_id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_kept_in_a_form_that_says_what_it_was() {
        let yes = ApprovalDecision::Approve;
        assert_eq!(recorded(&Said::Yes(GrantScope::Once), &yes), json!({"answer": "approve"}));
        let always = recorded(&Said::Yes(GrantScope::Always), &yes);
        assert_eq!(always, json!({"answer": "approve", "grant": "always"}));
        let words = recorded(&Said::Words("blue".to_owned()), &yes);
        assert_eq!(words, json!({"answer": "approve", "text": "blue"}));
    }
}
