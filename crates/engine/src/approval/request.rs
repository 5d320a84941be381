//! Approval requests: the run is parked, the request becomes a row, and a timer settles it when it expires.

use std::time::Duration;

use provost_core::durable::{ApprovalNeeded, DurableEvent, Parked};
use provost_core::lifecycle::{
    ApprovalKind, ApprovalState, ApprovalTimeoutAction, RequestError, RunTransition,
    TaskTransition, WaitReason, plan_hash,
};
use provost_core::recovery::OutcomeCode;
use provost_core::{ApprovalId, ApprovalRequest, ApprovalRequestKind, ToolCall};
use provost_store::table::governance::approval::{self, ApprovalRow};
use provost_store::table::governance::budget::{self, BudgetRow};
use provost_store::table::scheduling::timer;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::{journal, task};
use provost_store::{Hint, Locked, Tx};
use serde_json::{Value, json};

use super::plan::plan_of;
use super::{Asking, EXPIRY, Said, decide, grant, vote};
use crate::agent::AgentConfig;
use crate::approval::ask_user;
use crate::child::join;
use crate::error::EngineError;
use crate::queue;
use crate::run::end::{self, Ending};
use crate::run::event;
use crate::run::lifecycle::{move_run, move_task, policy};

/// Parks the run of an attempt until all requests have been answered.
pub(crate) fn park(
    tx: &mut Tx<'_>,
    run: &mut Locked<RunRow>,
    requests: &[ApprovalRequest],
    asking: Asking,
) -> Result<(), EngineError> {
    end::release(tx, run, None, Some("it waits"))?;
    let (waits, asked): (Vec<_>, Vec<_>) = requests.iter().cloned().partition(join::is_wait);
    let is_question = |request: &ApprovalRequest| kind_of(request) == ApprovalKind::Question;
    let why = match asked.as_slice() {
        [] => WaitReason::Child,
        // A call in the middle of a turn needs the session unchanged, so only questions free the session.
        asked if waits.is_empty() && asked.iter().all(is_question) => WaitReason::Question,
        _ => WaitReason::Approval,
    };
    for request in requests {
        if kind_of(request) != ApprovalKind::EffectUnknown {
            // The call suspended before it had any effect, so it starts again after the answer.
            journal::replan_step(tx, run.id, &request.call.id)?;
        }
    }
    // A run that is suspended without a request has its result and waits for its team.
    match requests {
        [] => join::park_for_members(tx, run)?,
        _ => join::park(tx, run, &waits)?,
    }
    wait_for(tx, run, why)?;
    for request in &asked {
        ask(tx, run, request, kind_of(request), asking)?;
    }
    settle_at_once(tx, run, &asked)?;
    // Children may have ended before the join was stored.
    match run::lock(tx, run.id)? {
        Some(mut run) => join::settle(tx, &mut run),
        None => Ok(()),
    }
}

/// Moves a run and its task to a waiting state.
fn wait_for(tx: &mut Tx<'_>, run: &mut Locked<RunRow>, why: WaitReason) -> Result<(), EngineError> {
    move_run(run, RunTransition::Parked(why))?;
    run.ready = false;
    let parked = Parked { reason: why, code: None, detail: None };
    event::append_event(tx, run, DurableEvent::Parked(parked))?;
    run.save(tx)?;
    if let Some(mut task) = task::lock(tx, run.task_id)? {
        task.waiting_for = Some(why.as_str().to_owned());
        task.save(tx)?;
        move_task(tx, &mut task, TaskTransition::WaitingForInput)?;
    }
    end::free_session(tx, run)?;
    queue::refresh(tx, &run.namespace, &run.session_id)
}

/// Settles requests that a standing approval covers, and requests that no user can answer.
fn settle_at_once(
    tx: &mut Tx<'_>,
    run: &RunRow,
    requests: &[ApprovalRequest],
) -> Result<(), EngineError> {
    for request in requests {
        // A quorum decides about each call anew, so standing approvals do not apply.
        let granted = kind_of(request) == ApprovalKind::Tool
            && request.approvers.is_none()
            && grant::is_granted(tx, run, request)?;
        if granted && let Some(row) = approval::lock(tx, request.id)? {
            decide::decide(tx, row, &Said::Yes(Default::default()), "grant")?;
        }
    }
    for row in approval::lock_open_of_run(tx, run.id)? {
        let hopeless = row.ballot()?.and_then(|ballot| ballot.unsatisfiable_reason());
        if row.expires <= tx.now() {
            decide::decide(tx, row, &Said::Nothing, "expiry")?;
        } else if let Some(why) = hopeless {
            decide::decide(tx, row, &Said::No(why), "policy")?;
        }
    }
    Ok(())
}

/// Returns the approval kind of a request.
fn kind_of(request: &ApprovalRequest) -> ApprovalKind {
    match request.kind {
        ApprovalRequestKind::EffectUnknown => ApprovalKind::EffectUnknown,
        ApprovalRequestKind::Question => ApprovalKind::Question,
        ApprovalRequestKind::Call | ApprovalRequestKind::Runs => ApprovalKind::Tool,
    }
}

/// Stores an approval whose plan is exactly the call that will run.
fn ask(
    tx: &mut Tx<'_>,
    run: &RunRow,
    request: &ApprovalRequest,
    kind: ApprovalKind,
    asking: Asking,
) -> Result<(), EngineError> {
    let asked = match kind {
        ApprovalKind::Question => ask_user::patience(request),
        _ => asking.expiry,
    };
    let step = journal::open_step_of(tx, run.id, &request.call.id)?;
    let question =
        Question { kind, plan: plan_of(run, request), step, fallback: asking.fallback, asked };
    store(tx, run, request, question)
}

/// The columns of a new approval that do not come from its request.
struct Question {
    kind: ApprovalKind,
    plan: Value,
    step: Option<u64>,
    fallback: ApprovalTimeoutAction,
    /// Time to wait; `None` for the default of its kind.
    asked: Option<Duration>,
}

fn store(
    tx: &mut Tx<'_>,
    run: &RunRow,
    request: &ApprovalRequest,
    question: Question,
) -> Result<(), EngineError> {
    let Question { kind, plan, step, fallback, asked } = question;
    let ballot = vote::new_ballot(tx, run, request)?;
    // If a policy asks, or approvers are named, an expiry denies.
    let asks = request.policy_revision.is_some() || ballot.is_some();
    let fallback = if asks { ApprovalTimeoutAction::Deny } else { fallback };
    let now = tx.now();
    let expires = now.after(kind.expiry(policy(run)?.interactive, asked));
    let row = ApprovalRow {
        id: request.id,
        namespace: run.namespace.clone(),
        task_id: run.task_id,
        run_id: run.id,
        step,
        kind: kind.as_str().to_owned(),
        plan_hash: plan_hash(&plan),
        plan: plan.to_string(),
        request: serde_json::to_string(request)?,
        state: ApprovalState::Pending.as_str().to_owned(),
        decision: None,
        decided_by: None,
        decided: None,
        expires,
        fallback: kind.fallback(fallback).as_str().to_owned(),
        created: now,
        ballot: ballot.as_ref().map(serde_json::to_string).transpose()?,
    };
    row.insert(tx)?;
    timer::set(tx, EXPIRY, &row.id.to_string(), expires)?;
    tx.hint(Hint::Timer);
    Ok(())
}

/// Creates a request of the engine itself, which is about no tool call.
fn engine_question(
    id: ApprovalId,
    kind: ApprovalKind,
    hint: String,
    plan: &Value,
) -> ApprovalRequest {
    let call = ToolCall::new("", kind.as_str(), plan);
    let (hint, payload, policy_revision, approvers) = (Some(hint), None, None, None);
    ApprovalRequest {
        id,
        kind: ApprovalRequestKind::Call,
        call,
        hint,
        payload,
        policy_revision,
        approvers,
    }
}

/// Handles a spent budget: requests an increase if the run is interactive, otherwise ends the run.
pub(crate) fn ask_for_money(
    tx: &mut Tx<'_>,
    run: &mut Locked<RunRow>,
    detail: &str,
    asking: Asking,
) -> Result<(), EngineError> {
    let spent = scarcest(tx, run)?;
    let (Some(budget), true) = (spent, policy(run)?.interactive) else {
        return end::end_run(tx, run, &Ending::because(OutcomeCode::BudgetExceeded, detail));
    };
    end::release(tx, run, None, Some(detail))?;
    wait_for(tx, run, WaitReason::Budget)?;
    // Requests the same amount again: the user sees the sum and can judge its use.
    let raise = budget.cap_micros.max(1);
    let plan = json!({
        "run": run.id, "scope": budget.scope, "cap_micros": budget.cap_micros,
        "spent_micros": budget.spent_micros, "raise_micros": raise, "currency": budget.currency,
    });
    let kind = ApprovalKind::BudgetRaise;
    let request = engine_question(asking.id, kind, detail.to_owned(), &plan);
    let question =
        Question { kind, plan, step: None, fallback: asking.fallback, asked: asking.expiry };
    store(tx, run, &request, question)?;
    let needed = ApprovalNeeded { request: Box::new(request) };
    event::append_event(tx, run, DurableEvent::ApprovalNeeded(needed))?;
    run.save(tx)?;
    Ok(())
}

/// Returns the budget of a run that has the least left.
fn scarcest(tx: &mut Tx<'_>, run: &RunRow) -> Result<Option<BudgetRow>, EngineError> {
    let mut known = Vec::new();
    for scope in provost_store::table::governance::budget::scopes_of_run(tx, run)? {
        known.extend(budget::get(tx, &run.namespace, &scope)?);
    }
    let left = |row: &BudgetRow| row.cap_micros - row.spent_micros - row.reserved_micros;
    Ok(known.into_iter().min_by_key(left))
}

/// Returns true if the profile of an agent requires approval before its tasks start.
pub(crate) fn asks_start(config: &AgentConfig) -> bool {
    config.more.get("approve_start").and_then(Value::as_bool).unwrap_or(false)
}

/// Requests approval for the start of a run that was just submitted. Nothing of it runs before.
pub(crate) fn ask_start(
    tx: &mut Tx<'_>,
    id: provost_core::RunId,
    asking: Asking,
) -> Result<(), EngineError> {
    let mut run = run::lock(tx, id)?.ok_or_else(|| EngineError::not_found("run", id))?;
    wait_for(tx, &mut run, WaitReason::Approval)?;
    let plan = json!({
        "run": run.id, "task": run.task_id, "agent": run.agent,
        "agent_revision": run.agent_revision, "session": run.session_id,
    });
    let hint = format!("agent `{}` asks before it begins", run.agent);
    let request = engine_question(asking.id, ApprovalKind::Start, hint, &plan);
    let Asking { fallback, expiry: asked, .. } = asking;
    let question = Question { kind: ApprovalKind::Start, plan, step: None, fallback, asked };
    store(tx, &run, &request, question)?;
    let needed = ApprovalNeeded { request: Box::new(request) };
    event::append_event(tx, &mut run, DurableEvent::ApprovalNeeded(needed))?;
    run.save(tx)?;
    settle_at_once(tx, &run, &[])
}

/// Cancels the pending approvals of a run.
pub(crate) fn close_open(tx: &mut Tx<'_>, run: &RunRow) -> Result<(), EngineError> {
    for mut open in approval::lock_open_of_run(tx, run.id)? {
        open.state = ApprovalState::Cancelled.as_str().to_owned();
        open.decided = Some(tx.now());
        open.save(tx)?;
        timer::clear(tx, EXPIRY, &open.id.to_string())?;
    }
    Ok(())
}

/// Creates the error for a grant that is not valid for the kind of approval.
pub(super) fn refuse_grant(kind: ApprovalKind) -> EngineError {
    let problem = format!("a question of kind `{kind}` is answered once");
    RequestError::invalid("grant", problem, "use `once`").into()
}
