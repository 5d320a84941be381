//! Deciding: an answer is recorded and carried out in one transaction, or it comes too late and changes nothing.

use provost_agent::run::Feed;
use provost_core::durable::{ApprovalDecided, DurableEvent};
use provost_core::id::name::Namespace;
use provost_core::lifecycle::{
    ApprovalEvent, ApprovalKind, Fallback, Grant, Resolution, RunEvent, TaskEvent, WorkError,
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

/// The result of a call that a person decided to leave.
const LEFT_RESULT: &str = "A person looked at this call, whose outcome was unknown after an interruption, and decided to leave it \
     as it is. Do not repeat it.";
/// Why a call did not run that nobody said anything about.
const NOBODY: &str = "nobody answered in time";

/// Answers a question with yes or no.
pub(crate) fn answer(
    tx: &mut Tx<'_>,
    namespace: &Namespace,
    id: ApprovalId,
    decision: &ApprovalDecision,
    by: &str,
) -> Result<Answered, EngineError> {
    say(tx, namespace, id, &Said::from(decision), by)
}

/// Answers a question.
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
    Err(WorkError::TooLarge { path: path.to_owned(), bytes, max }.into())
}

/// Answers the question that a run waits for with what was said to it; false if it asked nothing.
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

/// Nobody answered: the fallback counts.
pub(crate) fn expire(tx: &mut Tx<'_>, id: ApprovalId) -> Result<(), EngineError> {
    let Some(row) = approval::get(tx, id)? else { return Ok(()) };
    run::lock(tx, row.run_id)?;
    let Some(row) = approval::lock(tx, id)? else { return Ok(()) };
    decide(tx, row, &Said::Nothing, "expiry").map(drop)
}

/// Records an answer and carries it out; a later one is told what was recorded.
pub(super) fn decide(
    tx: &mut Tx<'_>,
    mut row: Locked<ApprovalRow>,
    said: &Said,
    by: &str,
) -> Result<Answered, EngineError> {
    let kind: ApprovalKind = word(&row.kind)?;
    let event = match said {
        Said::Yes(_) => ApprovalEvent::Approve,
        Said::No(_) => ApprovalEvent::Deny,
        Said::Words(_) => ApprovalEvent::Answer,
        Said::Nothing => ApprovalEvent::Expire,
    };
    let state = match kind.resolve(word(&row.state)?, event)? {
        Resolution::Recorded(state) => {
            return Ok(Answered { id: row.id, state, counted: false, by: row.decided_by.clone() });
        }
        Resolution::Applied(state) => state,
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

/// What an answer, or silence, means in terms of yes and no.
fn decision(said: &Said, row: &ApprovalRow) -> Result<ApprovalDecision, EngineError> {
    Ok(match said {
        Said::Yes(_) => match row.ballot()? {
            Some(ballot) => ApprovalDecision::ApprovedBy { by: ballot.yes() },
            None => ApprovalDecision::Approve,
        },
        Said::Words(_) => ApprovalDecision::Approve,
        Said::No(reason) => ApprovalDecision::Deny { reason: reason.clone() },
        Said::Nothing if word::<Fallback>(&row.fallback)?.allows(/*on_list*/ false) => {
            ApprovalDecision::Approve
        }
        Said::Nothing => ApprovalDecision::Deny { reason: NOBODY.to_owned() },
    })
}

/// The answer as its row keeps it.
fn recorded(said: &Said, decision: &ApprovalDecision) -> Value {
    match said {
        Said::Yes(Grant::Once) | Said::No(_) | Said::Nothing => json!(decision),
        Said::Yes(grant) => json!({"answer": "approve", "grant": grant}),
        Said::Words(text) => json!({"answer": "approve", "text": text}),
    }
}

/// What an answer does to its run.
enum Consequence {
    /// The run is told.
    Feed(Box<Feed>),
    /// The run may go on.
    GoOn,
    /// The run ends.
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
        // It is recorded; nobody waits for it any more.
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

/// What an answer to each kind of question does.
fn consequence(
    tx: &mut Tx<'_>,
    row: &ApprovalRow,
    kind: ApprovalKind,
    said: &Said,
    decision: &ApprovalDecision,
) -> Result<Consequence, EngineError> {
    use ApprovalKind as K;
    let yes = decision.is_yes();
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
        (K::Tool | K::EffectUnknown, _) => Consequence::Feed(Box::new(Feed::ApprovalDecided {
            id: row.id,
            decision: decision.clone(),
        })),
        (K::BudgetRaise, _) if yes => {
            raise_budget(tx, row)?;
            Consequence::GoOn
        }
        (K::BudgetRaise, _) => {
            Consequence::End(OutcomeCode::Budget, "no more money was given".to_owned())
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
    let feed = Feed::ToolFinished { result: Box::new(result), fault: false, at: tx.now() };
    Consequence::Feed(Box::new(feed))
}

fn raise_budget(tx: &mut Tx<'_>, row: &ApprovalRow) -> Result<(), EngineError> {
    let plan: Value = serde_json::from_str(&row.plan)?;
    let scope = plan["scope"].as_str().unwrap_or_default();
    let micros = plan["raise_micros"].as_i64().unwrap_or_default();
    budget::raise(tx, &row.namespace, scope, micros)?;
    Ok(())
}

/// Everything a parked run waited for is there.
pub(crate) fn wake(tx: &mut Tx<'_>, run: &mut Locked<RunRow>) -> Result<(), EngineError> {
    move_run(run, RunEvent::Woken)?;
    let now = tx.now();
    queue::schedule(tx, run, now)?;
    run.save(tx)?;
    if let Some(mut task) = task::lock(tx, run.task_id)? {
        task.waiting_for = None;
        task.save(tx)?;
        move_task(tx, &mut task, TaskEvent::Requeued)?;
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
        assert_eq!(recorded(&Said::Yes(Grant::Once), &yes), json!({"answer": "approve"}));
        let always = recorded(&Said::Yes(Grant::Always), &yes);
        assert_eq!(always, json!({"answer": "approve", "grant": "always"}));
        let words = recorded(&Said::Words("blue".to_owned()), &yes);
        assert_eq!(words, json!({"answer": "approve", "text": "blue"}));
    }
}
