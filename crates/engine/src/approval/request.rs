//! Approval requests: the run is parked, the request becomes a row, and a timer settles it when it expires.

use std::time::Duration;

use provost_core::durable::{ApprovalNeeded, DurableEvent, Parked};
use provost_core::lifecycle::{
    ApprovalKind, ApprovalState, ApprovalTimeoutAction, RequestError, RunTransition,
    TaskTransition, WaitReason, plan_hash,
};
use provost_core::recovery::OutcomeCode;
use provost_core::scheduling::TimerKind;
use provost_core::{ApprovalId, ApprovalRequest, ApprovalRequestKind, ToolCall};
use provost_store::table::governance::approval::{self, ApprovalRow};
use provost_store::table::governance::budget::{self, BudgetRow};
use provost_store::table::scheduling::timer;
use provost_store::table::work::run::{self, RunRow};
use provost_store::table::work::{journal, task};
use provost_store::{Locked, Tx, Wakeup};
use serde_json::{Value, json};

use super::plan::plan_of;
use super::{ApprovalAnswer, ApprovalSettings, decide, grant, vote};
use crate::approval::ask_user;
use crate::child::join;
use crate::error::EngineError;
use crate::run::end::{self, RunEnd};
use crate::run::event;
use crate::run::lifecycle::{transition_run, try_transition_task};
use crate::submit::queue;

/// Parks the run of an attempt, and stores its requests. Requests that a standing approval or a policy settles are
/// settled at once, which may resume the run.
pub(crate) fn park_for_approval(
    tx: &mut Tx<'_>,
    run: &mut Locked<RunRow>,
    requests: &[ApprovalRequest],
    settings: ApprovalSettings,
) -> Result<(), EngineError> {
    end::release_attempt(tx, run, None, Some("the run is parked"))?;
    let (waits, timeout): (Vec<_>, Vec<_>) =
        requests.iter().cloned().partition(join::is_internal_wait);
    let is_question = |request: &ApprovalRequest| approval_kind(request) == ApprovalKind::Question;
    let reason = match timeout.as_slice() {
        [] => WaitReason::Child,
        // A call in the middle of a turn needs the session unchanged, so only questions free the session.
        timeout if waits.is_empty() && timeout.iter().all(is_question) => WaitReason::Question,
        _ => WaitReason::Approval,
    };
    for request in requests {
        if approval_kind(request) != ApprovalKind::EffectUnknown {
            // The call suspended before it had any effect, so it starts again after the answer.
            journal::reset_step(tx, run.id, &request.call.id)?;
        }
    }
    // A run that is suspended without a request has its result and waits for its team.
    match requests {
        [] => join::park_for_members(tx, run)?,
        _ => join::park(tx, run, &waits)?,
    }
    park_run(tx, run, reason)?;
    for request in &timeout {
        insert_request(tx, run, request, approval_kind(request), settings)?;
    }
    settle_immediately(tx, run, &timeout)?;
    // Children may have ended before the join was stored.
    match run::lock(tx, run.id)? {
        Some(mut run) => join::settle(tx, &mut run),
        None => Ok(()),
    }
}

/// Moves a run and its task to a waiting state, and releases the session for its next run. Saves both rows.
fn park_run(
    tx: &mut Tx<'_>,
    run: &mut Locked<RunRow>,
    reason: WaitReason,
) -> Result<(), EngineError> {
    transition_run(run, RunTransition::Parked(reason))?;
    run.ready = false;
    let parked = Parked { reason, code: None, detail: None };
    event::append_event(tx, run, DurableEvent::Parked(parked))?;
    run.save(tx)?;
    if let Some(mut task) = task::lock(tx, run.task_id)? {
        task.waiting_for = Some(reason);
        task.save(tx)?;
        let _applied = try_transition_task(tx, &mut task, TaskTransition::WaitingForInput)?;
    }
    end::release_session(tx, run)?;
    queue::refresh(tx, &run.namespace, &run.session_id)
}

/// Settles requests that a standing approval covers, and requests that no user can answer.
fn settle_immediately(
    tx: &mut Tx<'_>,
    run: &RunRow,
    requests: &[ApprovalRequest],
) -> Result<(), EngineError> {
    for request in requests {
        // A quorum decides about each call anew, so standing approvals do not apply.
        let granted = approval_kind(request) == ApprovalKind::Tool
            && request.approvers.is_none()
            && grant::is_granted(tx, run, request)?;
        if granted && let Some(row) = approval::lock(tx, request.id)? {
            decide::apply_answer(tx, row, &ApprovalAnswer::Approve(Default::default()), "grant")?;
        }
    }
    for row in approval::lock_open_of_run(tx, run.id)? {
        let unsatisfiable = row.ballot()?.and_then(|ballot| ballot.unsatisfiable_reason());
        if row.expires <= tx.now() {
            decide::apply_answer(tx, row, &ApprovalAnswer::Expired, "expiry")?;
        } else if let Some(reason) = unsatisfiable {
            decide::apply_answer(tx, row, &ApprovalAnswer::Deny(reason), "policy")?;
        }
    }
    Ok(())
}

/// Returns the approval kind of a request.
fn approval_kind(request: &ApprovalRequest) -> ApprovalKind {
    match request.kind {
        ApprovalRequestKind::EffectUnknown => ApprovalKind::EffectUnknown,
        ApprovalRequestKind::Question => ApprovalKind::Question,
        ApprovalRequestKind::Call | ApprovalRequestKind::Runs => ApprovalKind::Tool,
    }
}

/// Stores an approval whose plan is exactly the call that will run.
fn insert_request(
    tx: &mut Tx<'_>,
    run: &RunRow,
    request: &ApprovalRequest,
    kind: ApprovalKind,
    settings: ApprovalSettings,
) -> Result<(), EngineError> {
    let timeout = match kind {
        ApprovalKind::Question => ask_user::answer_timeout(request),
        _ => settings.expiry,
    };
    let step = journal::open_step_of(tx, run.id, &request.call.id)?;
    let new = NewApproval {
        kind,
        plan: plan_of(run, request),
        step,
        fallback: settings.fallback,
        timeout,
    };
    store(tx, run, request, new)
}

/// Columns of a new approval that do not come from its request.
struct NewApproval {
    kind: ApprovalKind,
    plan: Value,
    step: Option<u64>,
    fallback: ApprovalTimeoutAction,
    /// Time to wait; `None` for the default of its kind.
    timeout: Option<Duration>,
}

/// Inserts an approval with its expiry timer. If a policy requires the approval or approvers are named, its expiry
/// denies.
fn store(
    tx: &mut Tx<'_>,
    run: &RunRow,
    request: &ApprovalRequest,
    new: NewApproval,
) -> Result<(), EngineError> {
    let NewApproval { kind, plan, step, fallback, timeout } = new;
    let ballot = vote::new_ballot(tx, run, request)?;
    // If a policy requires the approval, or approvers are named, an expiry denies.
    let must_deny = request.policy_revision.is_some() || ballot.is_some();
    let fallback = if must_deny { ApprovalTimeoutAction::Deny } else { fallback };
    let now = tx.now();
    let expires = now.after(kind.expiry(run.execution_policy()?.interactive, timeout));
    let row = ApprovalRow {
        id: request.id,
        namespace: run.namespace.clone(),
        task_id: run.task_id,
        run_id: run.id,
        step,
        kind,
        plan_hash: plan_hash(&plan),
        plan: plan.to_string(),
        request: serde_json::to_string(request)?,
        state: ApprovalState::Pending,
        decision: None,
        decided_by: None,
        decided: None,
        expires,
        fallback: kind.fallback(fallback),
        created: now,
        ballot: ballot.as_ref().map(serde_json::to_string).transpose()?,
    };
    row.insert(tx)?;
    timer::set(tx, TimerKind::ApprovalExpiry, &row.id.to_string(), expires)?;
    tx.wake(Wakeup::Timer);
    Ok(())
}

/// Creates a request of the engine itself, which is about no tool call.
fn engine_request(
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
pub(crate) fn request_budget_increase(
    tx: &mut Tx<'_>,
    run: &mut Locked<RunRow>,
    detail: &str,
    settings: ApprovalSettings,
) -> Result<(), EngineError> {
    let spent = tightest_budget(tx, run)?;
    let (Some(budget), true) = (spent, run.execution_policy()?.interactive) else {
        return end::end_run(tx, run, &RunEnd::with_code(OutcomeCode::BudgetExceeded, detail));
    };
    end::release_attempt(tx, run, None, Some(detail))?;
    park_run(tx, run, WaitReason::Budget)?;
    // Requests the same amount again: the user sees the sum and can judge its use.
    let raise = budget.cap_micros.max(1);
    let plan = json!({
        "run": run.id, "scope": budget.scope.to_string(), "cap_micros": budget.cap_micros,
        "spent_micros": budget.spent_micros, "raise_micros": raise, "currency": budget.currency,
    });
    let kind = ApprovalKind::BudgetRaise;
    let request = engine_request(settings.id, kind, detail.to_owned(), &plan);
    let new = NewApproval {
        kind,
        plan,
        step: None,
        fallback: settings.fallback,
        timeout: settings.expiry,
    };
    store(tx, run, &request, new)?;
    let needed = ApprovalNeeded { request: Box::new(request) };
    event::append_event(tx, run, DurableEvent::ApprovalNeeded(needed))?;
    run.save(tx)?;
    Ok(())
}

/// Returns the budget of a run that has the least left. `None` if the run has no budget.
fn tightest_budget(tx: &mut Tx<'_>, run: &RunRow) -> Result<Option<BudgetRow>, EngineError> {
    let mut budgets = Vec::new();
    for scope in provost_store::table::governance::budget::scopes_of_run(tx, run)? {
        budgets.extend(budget::get(tx, &run.namespace, &scope)?);
    }
    let left = |row: &BudgetRow| row.cap_micros - row.spent_micros - row.reserved_micros;
    Ok(budgets.into_iter().min_by_key(left))
}

/// Requests approval for the start of a run that was just submitted. The run does not start before the decision.
pub(crate) fn request_start_approval(
    tx: &mut Tx<'_>,
    id: provost_core::RunId,
    settings: ApprovalSettings,
) -> Result<(), EngineError> {
    let mut run = run::lock(tx, id)?.ok_or_else(|| EngineError::not_found("run", id))?;
    park_run(tx, &mut run, WaitReason::Approval)?;
    let plan = json!({
        "run": run.id, "task": run.task_id, "agent": run.agent,
        "agent_revision": run.agent_revision, "session": run.session_id,
    });
    let hint = format!("agent `{}` requires approval before it starts", run.agent);
    let request = engine_request(settings.id, ApprovalKind::Start, hint, &plan);
    let ApprovalSettings { fallback, expiry: timeout, .. } = settings;
    let new = NewApproval { kind: ApprovalKind::Start, plan, step: None, fallback, timeout };
    store(tx, &run, &request, new)?;
    let needed = ApprovalNeeded { request: Box::new(request) };
    event::append_event(tx, &mut run, DurableEvent::ApprovalNeeded(needed))?;
    run.save(tx)?;
    settle_immediately(tx, &run, &[])
}

/// Marks the pending approvals of a run as no longer needed, and removes their timers.
pub(crate) fn cancel_pending(tx: &mut Tx<'_>, run: &RunRow) -> Result<(), EngineError> {
    for mut open in approval::lock_open_of_run(tx, run.id)? {
        open.state = ApprovalState::Cancelled;
        open.decided = Some(tx.now());
        open.save(tx)?;
        timer::clear(tx, TimerKind::ApprovalExpiry, &open.id.to_string())?;
    }
    Ok(())
}

/// Creates the error for a grant that is not valid for the kind of approval.
pub(super) fn reject_grant(kind: ApprovalKind) -> EngineError {
    let problem = format!("an approval of kind `{kind}` covers one call only");
    RequestError::invalid("grant", problem, "use `once`").into()
}
