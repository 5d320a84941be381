//! What a run that a worker has is doing, or why it does not.

use provost_core::lifecycle::StepKind;
use provost_core::recovery::OutcomeCode;
use provost_core::{RunId, Timestamp, WorkerId};
use provost_store::table::work::run_step::RunStepRow;

use super::told::{Told, count, distance, moment, span};
use super::{Cause, next};
use provost_store::query::explain_facts::{Here, RunFacts};

/// The cause of a run that a worker has.
pub(super) fn cause(here: &Here, facts: &RunFacts) -> Told {
    let run = &facts.run;
    let told = lost(here, facts)
        .or_else(|| stopping(here, facts))
        .or_else(|| working(here, facts))
        .unwrap_or_else(|| between(here, facts));
    let seen = facts.owner.as_ref().map(|owner| moment(here.now, owner.row.seen));
    told.see_some("worker", run.lease_owner)
        .see_some("worker last seen", seen)
        .see_some("lease until", run.lease_until.map(|until| moment(here.now, until)))
        .see("attempt", run.attempt_no)
        .see("cancelled", run.cancel_requested.is_some())
        .see_some("must end by", run.deadline.map(|at| moment(here.now, at)))
}

/// Who has it cannot go on with it.
fn lost(here: &Here, facts: &RunFacts) -> Option<Told> {
    let (run, now) = (&facts.run, here.now);
    let owner = run.lease_owner.map_or_else(|| "nobody".to_owned(), |id: WorkerId| id.to_string());
    let others = here.alive().iter().filter(|node| Some(node.row.id) != run.lease_owner).count();
    let then = match others {
        0 => "no other worker is alive to take it over",
        _ => "another worker takes it over at its next look",
    };
    let told = if facts.owner.as_ref().is_none_or(|owner| !owner.alive) {
        let sentence =
            format!("The worker of {}, {owner}, has died or was killed; {then}.", run.id);
        Told::new(Cause::WorkerGone, sentence)
    } else {
        let until = run.lease_until.filter(|until| *until <= now)?;
        let silent = facts.owner.as_ref().map(|owner| now.since(owner.row.seen));
        let sentence = format!(
            "The worker of {}, {owner}, has said nothing for {} and its lease ended {}; {then}.",
            run.id,
            span(silent.unwrap_or_default()),
            distance(now, until),
        );
        Told::new(Cause::LeaseExpired, sentence)
    };
    let told = told.see("crashes without progress", run.crash_count).about(owner);
    Some(if others == 0 { told.then(next::serve()) } else { told })
}

/// It is to stop.
fn stopping(here: &Here, facts: &RunFacts) -> Option<Told> {
    let (run, now) = (&facts.run, here.now);
    if let Some(asked) = run.cancel_requested {
        let code = run.cancel_code.as_deref().and_then(|code| code.parse().ok());
        let who = match code {
            Some(OutcomeCode::Deadline) => "its time is over",
            Some(OutcomeCode::CancelledByParent) => "the run above it ended",
            Some(OutcomeCode::CancelledByInterrupt) => "a newer message takes its place",
            _ => "somebody cancelled it",
        };
        let by = asked.after(here.grace);
        let when = match by > now {
            true => format!("it has to be over {}", distance(now, by)),
            false => format!("it had to be over {} and is cut off", distance(now, by)),
        };
        let sentence = format!("{} is being stopped because {who}; {when}.", run.id);
        return Some(
            Told::new(Cause::Stopping, sentence)
                .see("asked to stop", moment(now, asked))
                .see("cut off", moment(now, by)),
        );
    }
    if let Some(asked) = run.interrupt_requested {
        let sentence = format!(
            "{} stops what it does {} because a newer message takes its place, and then goes on with that.",
            run.id,
            match asked == now {
                true => "now".to_owned(),
                false => format!("(asked {})", distance(now, asked)),
            },
        );
        let message = facts.unread.first().map(|row| row.id);
        return Some(
            Told::new(Cause::Interrupting, sentence)
                .see("interrupted", moment(now, asked))
                .see_some("by the message", message),
        );
    }
    let since = facts.owner.as_ref()?.row.draining?;
    let owner = run.lease_owner.map(|id| id.to_string()).unwrap_or_default();
    let doing = working(here, facts).map(|told| told.sentence);
    let sentence = format!(
        "The worker of {}, {owner}, stops: the run comes to its next boundary and goes on with another worker.",
        run.id
    );
    Some(
        Told::new(Cause::WorkerDraining, sentence)
            .see("the worker was told to stop", moment(now, since))
            .see_some("meanwhile", doing)
            .about(owner)
            .then(next::serve()),
    )
}

/// A step is under way.
fn working(here: &Here, facts: &RunFacts) -> Option<Told> {
    let started: Vec<&RunStepRow> =
        facts.open.iter().filter(|step| step.epoch == facts.run.epoch).collect();
    let of = |kind: StepKind| started.iter().filter(move |step| step.kind == kind.as_str());
    let tools = of(StepKind::ToolCall).count() as u64;
    if let Some(step) = of(StepKind::ToolCall).find(|step| step.state == "started") {
        return Some(tool(here, facts, step, tools));
    }
    let run = &facts.run;
    if let Some(step) = of(StepKind::Compact).next() {
        let sentence = format!(
            "{} has been making its conversation shorter for {} so that it fits the model.",
            run.id,
            since(here, step.started),
        );
        return Some(underway(Cause::Compacting, sentence, here, run.id, step));
    }
    let step = of(StepKind::ModelCall).next()?;
    let model = step.name.as_deref().unwrap_or("a model");
    let sentence =
        format!("{} waits for {model}, asked {} ago.", run.id, since(here, step.started));
    Some(underway(Cause::ModelRunning, sentence, here, run.id, step))
}

fn tool(here: &Here, facts: &RunFacts, step: &RunStepRow, tools: u64) -> Told {
    let name = step.name.as_deref().unwrap_or("a tool");
    let others = match tools {
        0 | 1 => String::new(),
        _ => format!(" beside {}", count(tools - 1, "other call", "other calls")),
    };
    let sentence = format!(
        "The tool `{name}` of {} has been running for {} (try {}){others}.",
        facts.run.id,
        since(here, step.started),
        step.tries,
    );
    underway(Cause::ToolRunning, sentence, here, facts.run.id, step)
        .see_some("effect of the tool", step.effect_class.as_deref())
        .then(next::cancel(facts.run.id))
}

fn underway(cause: Cause, sentence: String, here: &Here, run: RunId, step: &RunStepRow) -> Told {
    Told::new(cause, sentence)
        .see("step", step.step)
        .see("begun", moment(here.now, step.started))
        .see("tries", step.tries)
        .then(next::steps(run))
}

/// No step is under way.
fn between(here: &Here, facts: &RunFacts) -> Told {
    let run = &facts.run;
    let began = facts.attempt.as_ref().map_or(run.created, |attempt| attempt.started);
    let told = if facts.open.is_empty() && run.next_step == 1 {
        let sentence = format!(
            "{} was taken {} ago and gets ready: its agent is being made.",
            run.id,
            since(here, began)
        );
        Told::new(Cause::Starting, sentence)
    } else {
        let sentence = format!(
            "{} is at work between two steps, in an attempt that began {} ago.",
            run.id,
            since(here, began)
        );
        Told::new(Cause::BetweenSteps, sentence)
    };
    told.see("taken", moment(here.now, began))
        .see("next step", run.next_step)
        .then(next::steps(run.id))
}

fn since(here: &Here, at: Timestamp) -> String {
    span(here.now.since(at))
}
