//! Explains the state of an approval.

use provost_core::ApprovalRequest;
use provost_core::lifecycle::{ApprovalKind, ApprovalState, ApprovalVotes, RunPhase};
use provost_store::table::governance::approval::ApprovalRow;
use serde_json::Value;

use super::builder::{ExplanationBuilder, distance, error_detail, timestamp};
use super::{Cause, next};
use provost_store::query::explain_facts::{ApprovalFacts, SystemFacts};

/// The `decided_by` value of an approval that a standing approval settled.
const GRANT_ACTOR: &str = "grant";

/// Explains the state of an approval: open, answered, expired or no longer needed.
pub(super) fn explain(system: &SystemFacts, facts: &ApprovalFacts) -> ExplanationBuilder {
    let approval = &facts.approval;
    let explanation = match approval.state {
        ApprovalState::Pending => open(system, approval),
        ApprovalState::Cancelled => no_longer_needed(facts),
        ApprovalState::Expired => expired(approval),
        state @ (ApprovalState::Approved | ApprovalState::Denied | ApprovalState::Answered) => {
            answered(approval, state)
        }
    };
    explanation
        .with_evidence("kind", approval.kind)
        .with_evidence_opt("decided", approval.decided.map(|at| timestamp(system.now, at)))
        .with_related(approval.run_id)
        .with_next_step(next::explain(approval.run_id))
}

/// Describes the request in a few words.
fn request_text(approval: &ApprovalRow) -> String {
    let request = serde_json::from_str::<ApprovalRequest>(&approval.request).ok();
    let hint = request.as_ref().and_then(|request| request.hint.as_deref());
    let tool = request.as_ref().map_or("a tool", |request| request.call.name.as_str());
    match approval.kind {
        ApprovalKind::Start => "may it start?".to_owned(),
        ApprovalKind::EffectUnknown => format!("may `{tool}` run again after an interruption?"),
        ApprovalKind::Question => error_detail(hint),
        ApprovalKind::BudgetRaise => "may it spend more?".to_owned(),
        ApprovalKind::Plan => "may it carry out its plan?".to_owned(),
        ApprovalKind::Tool => format!("may `{tool}` run?"),
    }
}

/// Returns the effect of an expiry, as a clause.
pub(super) fn expiry_effect(approval: &ApprovalRow) -> &'static str {
    match (approval.kind, approval.fallback.allows(/*on_list*/ false)) {
        (ApprovalKind::Question, _) => "the agent continues without an answer",
        (_, true) => "it counts as approved",
        (_, false) => "it counts as denied",
    }
}

/// Explains an approval that waits for an answer, or whose expiry no worker has settled yet.
fn open(system: &SystemFacts, approval: &ApprovalRow) -> ExplanationBuilder {
    let (now, run, request_text) = (system.now, approval.run_id, request_text(approval));
    if approval.expires <= now {
        let sentence = format!(
            "The request of {run} ({request_text}) expired {} without an answer; the next check by a worker settles it.",
            distance(now, approval.expires),
        );
        return ExplanationBuilder::new(Cause::ApprovalOverdue, sentence)
            .with_evidence("without an answer", expiry_effect(approval))
            .with_next_step(next::serve());
    }
    let ballot = approval.ballot().ok().flatten();
    let sentence = match &ballot {
        None => format!(
            "{run} asks ({request_text}) and waits for a user with the scope `approve`; without an answer, {} {}.",
            distance(now, approval.expires),
            expiry_effect(approval),
        ),
        Some(ballot) => format!(
            "{run} asks ({request_text}) and {}; otherwise, {} {}.",
            missing(ballot),
            distance(now, approval.expires),
            expiry_effect(approval),
        ),
    };
    let explanation = ExplanationBuilder::new(Cause::ApprovalOpen, sentence);
    let explanation = ballot
        .iter()
        .fold(explanation, with_votes)
        .with_evidence("requested", timestamp(now, approval.created))
        .with_evidence("expires", timestamp(now, approval.expires))
        .with_evidence("without an answer", expiry_effect(approval))
        .with_evidence("plan", error_detail(Some(&approval.plan)));
    match approval.kind {
        ApprovalKind::Question => explanation
            .with_next_step(next::answer_text(run))
            .with_next_step(next::deny(approval.id)),
        _ => explanation
            .with_next_step(next::approve(approval.id))
            .with_next_step(next::deny(approval.id)),
    }
}

/// Returns a clause about how many approvals are missing and from whom.
pub(super) fn missing(ballot: &ApprovalVotes) -> String {
    let (needed, have) = (ballot.approvers.required, ballot.approved_by());
    let who = match ballot.pending_approvers().as_slice() {
        [] => "from users with the scope `approve`".to_owned(),
        names => format!("from {}", names.join(", ")),
    };
    let names = match have.as_slice() {
        [] => String::new(),
        names => format!(" ({})", names.join(", ")),
    };
    let more = ballot.missing_approvals();
    format!("has {} of {needed} approvals{names}: {more} more must come {who}", have.len())
}

/// Adds the votes and the eligible approvers as evidence.
pub(super) fn with_votes(
    explanation: ExplanationBuilder,
    ballot: &ApprovalVotes,
) -> ExplanationBuilder {
    let (needed, have) = (ballot.approvers.required, ballot.approved_by());
    let excluded = ballot.approvers.exclude_requester.then(|| ballot.requesters.join(", "));
    let awaited = Some(ballot.pending_approvers().join(", ")).filter(|names| !names.is_empty());
    explanation
        .with_evidence("approvals", format!("{} of {needed}", have.len()))
        .with_evidence_opt("approved by", Some(have.join(", ")).filter(|names| !names.is_empty()))
        .with_evidence_opt("may approve", awaited)
        .with_evidence_opt("may not approve (requesters of the run)", excluded)
}

/// Explains an approval that a user, a rule of votes or a standing approval decided.
fn answered(approval: &ApprovalRow, state: ApprovalState) -> ExplanationBuilder {
    let by = approval.decided_by.as_deref().unwrap_or("a user");
    let (run, request_text) = (approval.run_id, request_text(approval));
    let decision = approval.decision.as_deref().unwrap_or("{}");
    let decision = serde_json::from_str::<Value>(decision).unwrap_or_default();
    let decision_text = |field: &str| decision[field].as_str().map(str::to_owned);
    match state {
        ApprovalState::Denied => {
            let reason = decision_text("reason").filter(|reason| !reason.is_empty());
            let reason = reason.map(|reason| format!(": {}", error_detail(Some(&reason))));
            let sentence = format!("{by} denied the request of {run} ({request_text}){}.", reason.unwrap_or_default());
            ExplanationBuilder::new(Cause::ApprovalDenied, sentence)
        }
        ApprovalState::Answered => {
            let text = error_detail(decision_text("text").as_deref());
            let sentence = format!("{by} answered {run} ({request_text}): {text}.");
            ExplanationBuilder::new(Cause::ApprovalAnswered, sentence)
        }
        _ if by == GRANT_ACTOR => {
            let sentence = format!(
                "{run} did not have to wait ({request_text}): a standing approval covers the same call."
            );
            ExplanationBuilder::new(Cause::ApprovalGranted, sentence)
        }
        _ => {
            let sentence = format!("{by} approved the request of {run} ({request_text}).");
            ExplanationBuilder::new(Cause::ApprovalApproved, sentence)
                .with_evidence("grant", decision_text("grant").as_deref().unwrap_or("this call"))
        }
    }
    .with_evidence("answered by", by)
}

/// Explains an approval that expired without an answer.
fn expired(approval: &ApprovalRow) -> ExplanationBuilder {
    let (run, request_text) = (approval.run_id, request_text(approval));
    let sentence = format!(
        "{run} received no answer by {} ({request_text}), so {}.",
        approval.expires.to_rfc3339(),
        expiry_effect(approval)
    );
    ExplanationBuilder::new(Cause::ApprovalExpired, sentence)
        .with_evidence("fallback", approval.fallback)
}

/// Explains an approval whose run has ended, continued or was removed.
fn no_longer_needed(facts: &ApprovalFacts) -> ExplanationBuilder {
    let approval = &facts.approval;
    let why = match &facts.run {
        Some(run) if run.phase == RunPhase::Done => format!("has ended ({})", run.status),
        Some(_) => "continues with a newer message".to_owned(),
        None => "was removed".to_owned(),
    };
    let sentence = format!(
        "{} no longer needs an answer ({}): it {why}.",
        approval.run_id,
        request_text(approval)
    );
    ExplanationBuilder::new(Cause::ApprovalVoid, sentence)
}
