//! Where a question stands.

use provost_core::ApprovalRequest;
use provost_core::lifecycle::{ApprovalKind, ApprovalState, Ballot, Fallback};
use provost_store::table::governance::approval::ApprovalRow;
use serde_json::Value;

use super::told::{Told, distance, moment, problem};
use super::{Cause, next};
use provost_store::query::explain_facts::{ApprovalFacts, Here};

/// Who answers where an earlier yes reached as far.
const GRANT: &str = "grant";

/// The cause of where a question stands.
pub(super) fn cause(here: &Here, facts: &ApprovalFacts) -> Told {
    let asked = &facts.approval;
    let told = match asked.state.parse() {
        Ok(ApprovalState::Pending) | Err(_) => open(here, asked),
        Ok(ApprovalState::Cancelled) => void(facts),
        Ok(ApprovalState::Expired) => expired(asked),
        Ok(state @ (ApprovalState::Approved | ApprovalState::Denied | ApprovalState::Answered)) => {
            answered(asked, state)
        }
    };
    told.see("asks", &asked.kind)
        .see_some("decided", asked.decided.map(|at| moment(here.now, at)))
        .about(asked.run_id)
        .then(next::explain(asked.run_id))
}

/// What is asked.
fn what(asked: &ApprovalRow) -> String {
    let request = serde_json::from_str::<ApprovalRequest>(&asked.request).ok();
    let hint = request.as_ref().and_then(|request| request.hint.as_deref());
    let tool = request.as_ref().map_or("a tool", |request| request.call.name.as_str());
    match asked.kind.parse() {
        Ok(ApprovalKind::Start) => "may it begin?".to_owned(),
        Ok(ApprovalKind::EffectUnknown) => format!("may `{tool}` run again after an interruption?"),
        Ok(ApprovalKind::Question) => problem(hint),
        Ok(ApprovalKind::BudgetRaise) => "may it spend more?".to_owned(),
        Ok(ApprovalKind::Plan) => "is its plan good?".to_owned(),
        Ok(ApprovalKind::Tool) | Err(_) => format!("may `{tool}` run?"),
    }
}

/// What silence means.
pub(super) fn silence(asked: &ApprovalRow) -> &'static str {
    let yes = asked.fallback.parse::<Fallback>().is_ok_and(|fallback| fallback.allows(false));
    match (asked.kind.parse::<ApprovalKind>(), yes) {
        (Ok(ApprovalKind::Question), _) => "the agent goes on without an answer",
        (_, true) => "it counts as a yes",
        (_, false) => "it counts as a no",
    }
}

fn open(here: &Here, asked: &ApprovalRow) -> Told {
    let (now, run, what) = (here.now, asked.run_id, what(asked));
    if asked.expires <= now {
        let sentence = format!(
            "Nobody answered {run} in time ({what}): it expired {} and is settled as soon as a worker looks.",
            distance(now, asked.expires),
        );
        return Told::new(Cause::ApprovalOverdue, sentence)
            .see("without an answer", silence(asked))
            .then(next::serve());
    }
    let ballot = asked.ballot().ok().flatten();
    let sentence = match &ballot {
        None => format!(
            "{run} asks ({what}) and nobody has answered: anybody with the scope `approve` can, else {} {}.",
            distance(now, asked.expires),
            silence(asked),
        ),
        Some(ballot) => format!(
            "{run} asks ({what}) and {}, else {} {}.",
            missing(ballot),
            distance(now, asked.expires),
            silence(asked),
        ),
    };
    let told = Told::new(Cause::ApprovalOpen, sentence);
    let told = ballot
        .iter()
        .fold(told, tell_ballot)
        .see("asked", moment(now, asked.created))
        .see("expires", moment(now, asked.expires))
        .see("without an answer", silence(asked))
        .see("exactly this is asked for", problem(Some(&asked.plan)));
    match asked.kind.parse() {
        Ok(ApprovalKind::Question) => told.then(next::say(run)).then(next::deny(asked.id)),
        _ => told.then(next::approve(asked.id)).then(next::deny(asked.id)),
    }
}

/// How many approvals are missing, and whose.
pub(super) fn missing(ballot: &Ballot) -> String {
    let (needed, have) = (ballot.approvers.required, ballot.yes());
    let who = match ballot.awaited().as_slice() {
        [] => "from anybody with the scope `approve`".to_owned(),
        names => format!("from {}", names.join(", ")),
    };
    let said = match have.as_slice() {
        [] => String::new(),
        names => format!(" ({})", names.join(", ")),
    };
    let more = ballot.missing();
    format!("has {} of {needed} approvals{said}: {more} more must come {who}", have.len())
}

/// Who decides, and who has said what.
pub(super) fn tell_ballot(told: Told, ballot: &Ballot) -> Told {
    let (needed, have) = (ballot.approvers.required, ballot.yes());
    let excluded = ballot.approvers.not_requester.then(|| ballot.requesters.join(", "));
    let awaited = Some(ballot.awaited().join(", ")).filter(|names| !names.is_empty());
    told.see("approvals", format!("{} of {needed}", have.len()))
        .see_some("approved by", Some(have.join(", ")).filter(|names| !names.is_empty()))
        .see_some("may approve", awaited)
        .see_some("may not approve, having started the run", excluded)
}

fn answered(asked: &ApprovalRow, state: ApprovalState) -> Told {
    let by = asked.decided_by.as_deref().unwrap_or("somebody");
    let (run, what) = (asked.run_id, what(asked));
    let decision = asked.decision.as_deref().unwrap_or("{}");
    let decision = serde_json::from_str::<Value>(decision).unwrap_or_default();
    let said = |field: &str| decision[field].as_str().map(str::to_owned);
    match state {
        ApprovalState::Denied => {
            let reason = said("reason").filter(|reason| !reason.is_empty());
            let reason = reason.map(|reason| format!(": {}", problem(Some(&reason))));
            let sentence = format!("{by} said no to {run} ({what}){}.", reason.unwrap_or_default());
            Told::new(Cause::ApprovalDenied, sentence)
        }
        ApprovalState::Answered => {
            let text = problem(said("text").as_deref());
            let sentence = format!("{by} answered {run} ({what}): {text}.");
            Told::new(Cause::ApprovalAnswered, sentence)
        }
        _ if by == GRANT => {
            let sentence = format!(
                "{run} did not have to wait ({what}): an earlier yes was for the same call."
            );
            Told::new(Cause::ApprovalGranted, sentence)
        }
        _ => {
            let sentence = format!("{by} said yes to {run} ({what}).");
            Told::new(Cause::ApprovalApproved, sentence)
                .see("it reaches", said("grant").as_deref().unwrap_or("this call"))
        }
    }
    .see("answered by", by)
}

fn expired(asked: &ApprovalRow) -> Told {
    let (run, what) = (asked.run_id, what(asked));
    let sentence = format!(
        "Nobody answered {run} by {} ({what}), and then {}.",
        asked.expires.to_rfc3339(),
        silence(asked)
    );
    Told::new(Cause::ApprovalExpired, sentence).see("fallback", &asked.fallback)
}

fn void(facts: &ApprovalFacts) -> Told {
    let asked = &facts.approval;
    let why = match &facts.run {
        Some(run) if run.phase == "done" => format!("has ended ({})", run.status),
        Some(_) => "goes on with a newer message".to_owned(),
        None => "was removed".to_owned(),
    };
    let sentence =
        format!("{} needs no answer any more ({}): it {why}.", asked.run_id, what(asked));
    Told::new(Cause::ApprovalVoid, sentence)
}
