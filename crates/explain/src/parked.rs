//! What a run waits for that is not a worker.

use provost_core::ApprovalRequest;
use provost_core::lifecycle::{ApprovalKind, ParkedFor};
use provost_core::recovery::OutcomeCode;
use provost_store::table::governance::approval::ApprovalRow;

use super::told::{Told, count, distance, moment, money, problem};
use super::{Cause, next};
use provost_store::query::explain_facts::{Here, RunFacts};

/// Children that are told of one by one.
const CHILDREN_TOLD: usize = 10;

/// The cause of a parked run.
pub(super) fn cause(here: &Here, facts: &RunFacts) -> Told {
    let (run, now) = (&facts.run, here.now);
    if let Some(at) = run.deadline.filter(|at| *at <= now) {
        let sentence = format!(
            "The deadline of {} passed {}; it ends as soon as a worker looks ({} alive).",
            run.id,
            distance(now, at),
            here.alive().len(),
        );
        let told = Told::new(Cause::DeadlinePassed, sentence).see("deadline", moment(now, at));
        return if here.alive().is_empty() { told.then(next::serve()) } else { told };
    }
    let why = run.parked_for.as_deref().and_then(|why| why.parse().ok());
    let told = match why {
        Some(ParkedFor::Operator) => operator(facts),
        _ => waits(here, facts),
    };
    told.see_some("must end by", run.deadline.map(|at| moment(now, at)))
        .see("has its session", run.holds_session)
        .then(next::cancel(run.id))
}

/// It waits for an answer, or for its children, or for both.
fn waits(here: &Here, facts: &RunFacts) -> Told {
    if let Some(asked) = facts.questions.first() {
        let told = question(here, facts, asked);
        let others = facts.questions.len() - 1;
        let told = told.see_some("further questions", (others > 0).then_some(others));
        return facts.questions.iter().fold(told, |told, asked| told.about(asked.id));
    }
    let mut live: Vec<_> = facts.children.iter().filter(|child| child.phase != "done").collect();
    if live.is_empty() {
        let why = facts.run.parked_for.as_deref().unwrap_or("nothing");
        let sentence = format!(
            "{} is parked for {why}, but no question of it is open and no run that it waits for is left: nothing would wake it.",
            facts.run.id
        );
        return Told::new(Cause::ParkedForNothing, sentence)
            .see("open questions", 0)
            .see("runs that it waits for", facts.children.len());
    }
    // Those that are at work, or wait for something themselves, say more than those that have not begun.
    live.sort_by_key(|row| (row.started.is_none(), row.rank));
    let (number, ended) = (live.len(), facts.children.len() - live.len());
    live.truncate(CHILDREN_TOLD);
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
    let over = facts.wait_over.map(|at| moment(here.now, at));
    let told = Told::new(Cause::ParkedChildren, sentence)
        .see("runs that have ended", ended)
        .see_some("waits until", over);
    live.iter().fold(told, |told, child| told.about(child.id).then(next::explain(child.id)))
}

fn question(here: &Here, facts: &RunFacts, asked: &ApprovalRow) -> Told {
    let (run, now) = (&facts.run, here.now);
    let (id, kind) = (asked.id, asked.kind.parse().ok());
    let request = serde_json::from_str::<ApprovalRequest>(&asked.request).ok();
    let tool = request.as_ref().map_or("a tool", |request| request.call.name.as_str());
    let hint = request.as_ref().and_then(|request| request.hint.as_deref());
    let ballot = asked.ballot().ok().flatten();
    let (cause, what) = match kind {
        _ if asked.expires <= now => (
            Cause::ParkedOverdue,
            format!(
                "was to be settled {} because nobody answered {id}, and no worker has looked since",
                distance(now, asked.expires)
            ),
        ),
        Some(ApprovalKind::Start) => {
            (Cause::ParkedStart, format!("needs a yes before it begins ({id})"))
        }
        Some(ApprovalKind::Tool) | None => {
            let missing =
                ballot.iter().map(|ballot| format!(", and {}", super::approval::missing(ballot)));
            let missing: String = missing.collect();
            (Cause::ParkedTool, format!("needs a yes for its call of `{tool}` ({id}){missing}"))
        }
        Some(ApprovalKind::EffectUnknown) => (
            Cause::ParkedEffect,
            format!(
                "was interrupted while `{tool}` ran, and somebody must say whether to run it again ({id})"
            ),
        ),
        Some(ApprovalKind::Question) => {
            (Cause::ParkedQuestion, format!("asked {id}: {}", problem(hint)))
        }
        Some(ApprovalKind::BudgetRaise) => (
            Cause::ParkedBudget,
            format!("has spent its money and needs more ({id}): {}", budget(facts)),
        ),
        Some(ApprovalKind::Plan) => (Cause::ParkedPlan, format!("needs a yes for its plan ({id})")),
    };
    let ends = match cause {
        Cause::ParkedOverdue => String::new(),
        _ => format!("; without an answer it is settled {}", distance(now, asked.expires)),
    };
    let told = Told::new(cause, format!("{} {what}{ends}.", run.id))
        .see("question", id)
        .see("expires", moment(now, asked.expires))
        .see("without an answer", super::approval::silence(asked));
    let told = told.see_some("asked", hint);
    let told = ballot.iter().fold(told, super::approval::tell_ballot);
    match cause {
        Cause::ParkedOverdue => told.then(next::serve()),
        Cause::ParkedQuestion => told.then(next::say(run.id)).then(next::deny(id)),
        _ => told.then(next::approve(id)).then(next::deny(id)),
    }
}

/// The budget that has the least left.
fn budget(facts: &RunFacts) -> String {
    let left = |row: &&provost_store::table::governance::budget::BudgetRow| {
        row.cap_micros - row.spent_micros - row.reserved_micros
    };
    let Some(row) = facts.budgets.iter().min_by_key(left) else {
        return "its budget was removed meanwhile".to_owned();
    };
    let money = |micros| money(micros, &row.currency);
    format!(
        "{} of {} are left of the budget of {}",
        money(left(&row)),
        money(row.cap_micros),
        row.scope
    )
}

/// Somebody wanted to look before it goes on.
fn operator(facts: &RunFacts) -> Told {
    let run = &facts.run;
    let detail = problem(run.detail.as_deref());
    let code = run.outcome_code.as_deref().unwrap_or("no code");
    let (cause, sentence) = match code == OutcomeCode::CrashLoop.as_str() {
        true => (
            Cause::ParkedCrashLoop,
            format!(
                "{} crashed {} times without getting anywhere and waits for an operator.",
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
    Told::new(cause, sentence)
        .see("last outcome", code)
        .see("paused", run.paused.map(|at| at.to_rfc3339()).unwrap_or_default())
        .then(next::resume(run.id))
        .then(next::steps(run.id))
}
