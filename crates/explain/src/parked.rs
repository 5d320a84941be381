//! Explains why a run is parked.

use provost_core::ApprovalRequest;
use provost_core::lifecycle::{ApprovalKind, RunPhase, WaitReason};
use provost_core::recovery::OutcomeCode;
use provost_store::table::governance::approval::ApprovalRow;

use super::builder::{ExplanationBuilder, count, distance, error_detail, money, timestamp};
use super::{Cause, next};
use provost_store::query::explain_facts::{RunFacts, SystemFacts};

/// Children that the sentence lists one by one.
const CHILDREN_LISTED: usize = 10;

/// Explains a parked run by the reason of its wait.
pub(super) fn explain(system: &SystemFacts, facts: &RunFacts) -> ExplanationBuilder {
    let (run, now) = (&facts.run, system.now);
    if let Some(at) = run.deadline.filter(|at| *at <= now) {
        let sentence = format!(
            "The deadline of {} passed {}; the next check by a worker ends it (live workers: {}).",
            run.id,
            distance(now, at),
            system.live_workers().len(),
        );
        let explanation = ExplanationBuilder::new(Cause::DeadlinePassed, sentence)
            .with_evidence("deadline", timestamp(now, at));
        return if system.live_workers().is_empty() {
            explanation.with_next_step(next::serve())
        } else {
            explanation
        };
    }
    let explanation = match run.parked_for {
        Some(WaitReason::Operator) => operator(facts),
        _ => waits(system, facts),
    };
    explanation
        .with_evidence_opt("must end by", run.deadline.map(|at| timestamp(now, at)))
        .with_evidence("holds its session", run.holds_session)
        .with_next_step(next::cancel(run.id))
}

/// Explains a run that waits for approvals, for its children, or for both.
fn waits(system: &SystemFacts, facts: &RunFacts) -> ExplanationBuilder {
    if let Some(approval) = facts.questions.first() {
        let explanation = open_approval(system, facts, approval);
        let others = facts.questions.len() - 1;
        let explanation =
            explanation.with_evidence_opt("other open approvals", (others > 0).then_some(others));
        return facts
            .questions
            .iter()
            .fold(explanation, |explanation, approval| explanation.with_related(approval.id));
    }
    let mut live: Vec<_> =
        facts.children.iter().filter(|child| child.phase != RunPhase::Done).collect();
    if live.is_empty() {
        let why = facts.run.parked_for.map_or("nothing", WaitReason::as_str);
        let sentence = format!(
            "{} is parked for {why}, but it has no open approval and awaits no active run: nothing would wake it.",
            facts.run.id
        );
        return ExplanationBuilder::new(Cause::ParkedForNothing, sentence)
            .with_evidence("open approvals", 0)
            .with_evidence("awaited runs", facts.children.len());
    }
    // Children that have started say more than children that have not, so they come first.
    live.sort_by_key(|row| (row.started.is_none(), row.rank));
    let (number, ended) = (live.len(), facts.children.len() - live.len());
    live.truncate(CHILDREN_LISTED);
    let mut states: Vec<_> = live.iter().map(|row| format!("{} ({})", row.id, row.phase)).collect();
    if number > live.len() {
        states.push(format!("and {} more", number - live.len()));
    }
    let sentence = format!(
        "{} waits for {} that it started: {}.",
        facts.run.id,
        count(number as u64, "run", "runs"),
        states.join(", "),
    );
    let wait_end = facts.wait_over.map(|at| timestamp(system.now, at));
    let explanation = ExplanationBuilder::new(Cause::ParkedChildren, sentence)
        .with_evidence("finished runs", ended)
        .with_evidence_opt("wait ends", wait_end);
    live.iter().fold(explanation, |explanation, child| {
        explanation.with_related(child.id).with_next_step(next::explain(child.id))
    })
}

/// Explains a run that waits for one approval.
fn open_approval(
    system: &SystemFacts,
    facts: &RunFacts,
    approval: &ApprovalRow,
) -> ExplanationBuilder {
    let (run, now) = (&facts.run, system.now);
    let (id, kind) = (approval.id, approval.kind);
    let request = serde_json::from_str::<ApprovalRequest>(&approval.request).ok();
    let tool = request.as_ref().map_or("a tool", |request| request.call.name.as_str());
    let hint = request.as_ref().and_then(|request| request.hint.as_deref());
    let ballot = approval.ballot().ok().flatten();
    let (cause, what) = match kind {
        _ if approval.expires <= now => (
            Cause::ParkedOverdue,
            format!(
                "waits for {id}, which expired {} without an answer and which no worker has settled yet",
                distance(now, approval.expires)
            ),
        ),
        ApprovalKind::Start => {
            (Cause::ParkedStart, format!("needs approval before it starts ({id})"))
        }
        ApprovalKind::Tool => {
            let missing =
                ballot.iter().map(|ballot| format!(", and {}", super::approval::missing(ballot)));
            let missing: String = missing.collect();
            (Cause::ParkedTool, format!("needs approval for its call of `{tool}` ({id}){missing}"))
        }
        ApprovalKind::EffectUnknown => (
            Cause::ParkedEffect,
            format!(
                "was interrupted while `{tool}` ran, and a user must decide whether to run it again ({id})"
            ),
        ),
        ApprovalKind::Question => {
            (Cause::ParkedQuestion, format!("waits for an answer to {id}: {}", error_detail(hint)))
        }
        ApprovalKind::BudgetRaise => (
            Cause::ParkedBudget,
            format!("has spent its budget and needs an increase ({id}): {}", budget(facts)),
        ),
        ApprovalKind::Plan => (Cause::ParkedPlan, format!("needs approval for its plan ({id})")),
    };
    let ends = match cause {
        Cause::ParkedOverdue => String::new(),
        _ => format!("; the request expires {}", distance(now, approval.expires)),
    };
    let explanation = ExplanationBuilder::new(cause, format!("{} {what}{ends}.", run.id))
        .with_evidence("approval", id)
        .with_evidence("expires", timestamp(now, approval.expires))
        .with_evidence("if it expires", super::approval::expiry_effect(approval));
    let explanation = explanation.with_evidence_opt("request", hint);
    let explanation = ballot.iter().fold(explanation, super::approval::with_votes);
    match cause {
        Cause::ParkedOverdue => explanation.with_next_step(next::serve()),
        Cause::ParkedQuestion => {
            explanation.with_next_step(next::answer_text(run.id)).with_next_step(next::deny(id))
        }
        _ => explanation.with_next_step(next::approve(id)).with_next_step(next::deny(id)),
    }
}

/// Describes the budget with the least money left.
fn budget(facts: &RunFacts) -> String {
    let left = |row: &&provost_store::table::governance::budget::BudgetRow| {
        row.cap_micros - row.spent_micros - row.reserved_micros
    };
    let Some(row) = facts.budgets.iter().min_by_key(left) else {
        return "its budget was removed".to_owned();
    };
    let money = |micros| money(micros, row.currency.as_str());
    format!(
        "{} of {} is left in the budget of {}",
        money(left(&row)),
        money(row.cap_micros),
        row.scope
    )
}

/// Explains a run that the policy handed to an operator.
fn operator(facts: &RunFacts) -> ExplanationBuilder {
    let run = &facts.run;
    let detail = error_detail(run.detail.as_deref());
    let code = run.outcome_code.map_or("no code", OutcomeCode::as_str);
    let (cause, sentence) = match run.outcome_code == Some(OutcomeCode::CrashLoop) {
        true => (
            Cause::ParkedCrashLoop,
            format!(
                "{} crashed {} times without progress and waits for an operator.",
                run.id, run.crash_count
            ),
        ),
        false => (
            Cause::ParkedRetriesUsedUp,
            format!(
                "{} used up its {} and waits for an operator; the last one failed with {code} ({detail}).",
                run.id,
                count(run.failure_count, "try", "tries"),
            ),
        ),
    };
    ExplanationBuilder::new(cause, sentence)
        .with_evidence("last outcome", code)
        .with_evidence("paused", run.paused.map(|at| at.to_rfc3339()).unwrap_or_default())
        .with_next_step(next::resume(run.id))
        .with_next_step(next::steps(run.id))
}
