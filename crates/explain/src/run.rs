//! Why a run waits, what it does, or how it ended.

use provost_core::lifecycle::RunPhase;

use super::told::Told;
use super::{Cause, ended, leased, next, parked, queued};
use provost_store::query::explain_facts::{Here, RunFacts};

/// The cause of where a run stands.
pub(super) fn cause(here: &Here, facts: &RunFacts) -> Told {
    let run = &facts.run;
    let told = match run.state().map(|state| state.phase()) {
        Err(_) => no_state(facts),
        Ok(RunPhase::Queued) => queued::cause(here, facts),
        Ok(RunPhase::Leased) => leased::cause(here, facts),
        Ok(RunPhase::Parked) => parked::cause(here, facts),
        Ok(RunPhase::Done) => ended::cause(here, facts),
    };
    let told = told.see_some(
        "last event",
        facts.last_event.as_ref().map(|(kind, at)| format!("{kind} at {}", at.to_rfc3339())),
    );
    told.see("task", run.task_id).see("session", &run.session_id)
}

fn no_state(facts: &RunFacts) -> Told {
    let run = &facts.run;
    let why = run.parked_for.as_deref().unwrap_or("nothing");
    let sentence = format!(
        "{} is stored with status `{}`, phase `{}` and parked for {why}, which no run can be in: its row was changed by hand \
         or by another program.",
        run.id, run.status, run.phase,
    );
    Told::new(Cause::NoState, sentence)
        .see("status", &run.status)
        .see("phase", &run.phase)
        .see("has its session", run.holds_session)
        .then(next::steps(run.id))
}
