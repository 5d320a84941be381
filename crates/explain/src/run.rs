//! Explains why a run waits, its current activity, or how it ended.

use provost_core::lifecycle::{RunPhase, WaitReason};

use super::builder::ExplanationBuilder;
use super::{Cause, ended, leased, next, parked, queued};
use provost_store::query::explain_facts::{RunFacts, SystemFacts};

/// Explains the state of a run by its phase.
pub(super) fn explain(system: &SystemFacts, facts: &RunFacts) -> ExplanationBuilder {
    let run = &facts.run;
    let explanation = match run.state().map(|state| state.phase()) {
        Err(_) => no_state(facts),
        Ok(RunPhase::Queued) => queued::explain(system, facts),
        Ok(RunPhase::Leased) => leased::explain(system, facts),
        Ok(RunPhase::Parked) => parked::explain(system, facts),
        Ok(RunPhase::Done) => ended::explain(system, facts),
    };
    let explanation = explanation.with_evidence_opt(
        "last event",
        facts.last_event.as_ref().map(|(kind, at)| format!("{kind} at {}", at.to_rfc3339())),
    );
    explanation.with_evidence("task", run.task_id).with_evidence("session", &run.session_id)
}

/// Explains a run whose row has no valid state.
fn no_state(facts: &RunFacts) -> ExplanationBuilder {
    let run = &facts.run;
    let why = run.parked_for.map_or("nothing", WaitReason::as_str);
    let sentence = format!(
        "{} has status `{}`, phase `{}` and wait reason {why}, an invalid combination: its row was changed manually or by \
         another program.",
        run.id, run.status, run.phase,
    );
    ExplanationBuilder::new(Cause::NoState, sentence)
        .with_evidence("status", run.status)
        .with_evidence("phase", run.phase)
        .with_evidence("holds its session", run.holds_session)
        .with_next_step(next::steps(run.id))
}
