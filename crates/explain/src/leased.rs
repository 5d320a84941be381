//! Explains the current activity of a leased run, or why it makes no progress.

use provost_core::lifecycle::{StepKind, StepState};
use provost_core::recovery::OutcomeCode;
use provost_core::{RunId, Timestamp, WorkerId};
use provost_store::table::work::run_step::RunStepRow;

use super::builder::{ExplanationBuilder, count, distance, span, timestamp};
use super::{Cause, next};
use provost_store::query::explain_facts::{RunFacts, SystemFacts};

/// Explains a leased run: by its lost worker, a request to stop it, or its step in flight.
pub(super) fn explain(system: &SystemFacts, facts: &RunFacts) -> ExplanationBuilder {
    let run = &facts.run;
    let explanation = lost(system, facts)
        .or_else(|| stopping(system, facts))
        .or_else(|| step_in_flight(system, facts))
        .unwrap_or_else(|| between_steps(system, facts));
    let seen = facts.owner.as_ref().map(|owner| timestamp(system.now, owner.row.last_heartbeat));
    explanation
        .with_evidence_opt("worker", run.lease_owner)
        .with_evidence_opt("worker last seen", seen)
        .with_evidence_opt("lease until", run.lease_until.map(|until| timestamp(system.now, until)))
        .with_evidence("attempt", run.attempt_no)
        .with_evidence("cancelled", run.cancel_requested.is_some())
        .with_evidence_opt("must end by", run.deadline.map(|at| timestamp(system.now, at)))
}

/// Explains a run whose worker is dead or lost its lease. Returns `None` if the worker is alive and its lease is
/// valid.
fn lost(system: &SystemFacts, facts: &RunFacts) -> Option<ExplanationBuilder> {
    let (run, now) = (&facts.run, system.now);
    let owner = run.lease_owner.map_or_else(|| "none".to_owned(), |id: WorkerId| id.to_string());
    let others = system
        .live_workers()
        .iter()
        .filter(|worker| Some(worker.row.id) != run.lease_owner)
        .count();
    let then = match others {
        0 => "no other worker is alive to take it over",
        _ => "another worker takes it over at its next check",
    };
    let explanation = if facts.owner.as_ref().is_none_or(|owner| !owner.is_alive) {
        let sentence =
            format!("The worker of {}, {owner}, has died or was killed; {then}.", run.id);
        ExplanationBuilder::new(Cause::WorkerGone, sentence)
    } else {
        let until = run.lease_until.filter(|until| *until <= now)?;
        let silent = facts.owner.as_ref().map(|owner| now.since(owner.row.last_heartbeat));
        let sentence = format!(
            "The worker of {}, {owner}, has sent no heartbeat for {} and its lease expired {}; {then}.",
            run.id,
            span(silent.unwrap_or_default()),
            distance(now, until),
        );
        ExplanationBuilder::new(Cause::LeaseExpired, sentence)
    };
    let explanation =
        explanation.with_evidence("crashes without progress", run.crash_count).with_related(owner);
    Some(if others == 0 { explanation.with_next_step(next::serve()) } else { explanation })
}

/// Explains a run that is cancelled or interrupted, or whose worker is draining. Returns `None` otherwise.
fn stopping(system: &SystemFacts, facts: &RunFacts) -> Option<ExplanationBuilder> {
    let (run, now) = (&facts.run, system.now);
    if let Some(requested) = run.cancel_requested {
        let who = match run.cancel_code {
            Some(OutcomeCode::DeadlineExceeded) => "its deadline passed",
            Some(OutcomeCode::CancelledByParent) => "its parent run ended",
            Some(OutcomeCode::CancelledByInterrupt) => "a newer message replaces it",
            _ => "a user cancelled it",
        };
        let by = requested.after(system.grace);
        let when = match by > now {
            true => format!("it must end {}", distance(now, by)),
            false => format!("it had to end {} and is aborted", distance(now, by)),
        };
        let sentence = format!("{} is being stopped because {who}; {when}.", run.id);
        return Some(
            ExplanationBuilder::new(Cause::Cancelling, sentence)
                .with_evidence("stop requested", timestamp(now, requested))
                .with_evidence("abort time", timestamp(now, by)),
        );
    }
    if let Some(requested) = run.interrupt_requested {
        let sentence = format!(
            "{} stops its current step {} because a newer message interrupts it, and then continues with that message.",
            run.id,
            match requested == now {
                true => "now".to_owned(),
                false => format!("(requested {})", distance(now, requested)),
            },
        );
        let message = facts.unread.first().map(|row| row.id);
        return Some(
            ExplanationBuilder::new(Cause::Interrupting, sentence)
                .with_evidence("interrupted", timestamp(now, requested))
                .with_evidence_opt("by the message", message),
        );
    }
    let since = facts.owner.as_ref()?.row.draining?;
    let owner = run.lease_owner.map(|id| id.to_string()).unwrap_or_default();
    let doing = step_in_flight(system, facts).map(|explanation| explanation.sentence);
    let sentence = format!(
        "The worker of {}, {owner}, is draining: the run stops at its next boundary and continues on another worker.",
        run.id
    );
    Some(
        ExplanationBuilder::new(Cause::WorkerDraining, sentence)
            .with_evidence("worker draining since", timestamp(now, since))
            .with_evidence_opt("current activity", doing)
            .with_related(owner)
            .with_next_step(next::serve()),
    )
}

/// Explains the step in flight. Returns `None` if there is none.
fn step_in_flight(system: &SystemFacts, facts: &RunFacts) -> Option<ExplanationBuilder> {
    let started: Vec<&RunStepRow> =
        facts.open.iter().filter(|step| step.epoch == facts.run.epoch).collect();
    let of = |kind: StepKind| started.iter().filter(move |step| step.kind == kind);
    let tools = of(StepKind::ToolCall).count() as u64;
    if let Some(step) = of(StepKind::ToolCall).find(|step| step.state == StepState::Started) {
        return Some(tool(system, facts, step, tools));
    }
    let run = &facts.run;
    if let Some(step) = of(StepKind::Compact).next() {
        let sentence = format!(
            "{} has been compacting its context for {} so that it fits the model.",
            run.id,
            since(system, step.started),
        );
        return Some(in_flight(Cause::Compacting, sentence, system, run.id, step));
    }
    let step = of(StepKind::ModelCall).next()?;
    let model = step.name.as_deref().unwrap_or("a model");
    let sentence = format!(
        "{} waits for {model}, which it called {} ago.",
        run.id,
        since(system, step.started)
    );
    Some(in_flight(Cause::ModelRunning, sentence, system, run.id, step))
}

/// Explains a tool call in flight. `tools` is the number of calls in flight.
fn tool(
    system: &SystemFacts,
    facts: &RunFacts,
    step: &RunStepRow,
    tools: u64,
) -> ExplanationBuilder {
    let name = step.name.as_deref().unwrap_or("a tool");
    let others = match tools {
        0 | 1 => String::new(),
        _ => format!(" alongside {}", count(tools - 1, "other call", "other calls")),
    };
    let sentence = format!(
        "The tool `{name}` of {} has been running for {} (try {}){others}.",
        facts.run.id,
        since(system, step.started),
        step.tries,
    );
    in_flight(Cause::ToolRunning, sentence, system, facts.run.id, step)
        .with_evidence_opt("effect class", step.effect_class)
        .with_next_step(next::cancel(facts.run.id))
}

/// Explains a step in flight, with its start and tries as evidence.
fn in_flight(
    cause: Cause,
    sentence: String,
    system: &SystemFacts,
    run: RunId,
    step: &RunStepRow,
) -> ExplanationBuilder {
    ExplanationBuilder::new(cause, sentence)
        .with_evidence("step", step.step)
        .with_evidence("started", timestamp(system.now, step.started))
        .with_evidence("tries", step.tries)
        .with_next_step(next::steps(run))
}

/// Explains a run without a step in flight.
fn between_steps(system: &SystemFacts, facts: &RunFacts) -> ExplanationBuilder {
    let run = &facts.run;
    let began = facts.attempt.as_ref().map_or(run.created, |attempt| attempt.started);
    let explanation = if facts.open.is_empty() && run.next_step == 1 {
        let sentence = format!(
            "{} was claimed {} ago and is starting: its agent is being built.",
            run.id,
            since(system, began)
        );
        ExplanationBuilder::new(Cause::Starting, sentence)
    } else {
        let sentence = format!(
            "{} is between two steps, in an attempt that started {} ago.",
            run.id,
            since(system, began)
        );
        ExplanationBuilder::new(Cause::BetweenSteps, sentence)
    };
    explanation
        .with_evidence("claimed", timestamp(system.now, began))
        .with_evidence("next step", run.next_step)
        .with_next_step(next::steps(run.id))
}

/// Formats the time since `at`.
fn since(system: &SystemFacts, at: Timestamp) -> String {
    span(system.now.since(at))
}
