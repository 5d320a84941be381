//! Which of its clocks ended a run: the queue's, one attempt's, the whole run's, or that of silence.

use std::time::Duration;

use provost_core::recovery::OutcomeCode;

use super::super::Cause;
use super::super::told::{Told, problem, span};
use super::LIMIT;
use provost_store::query::explain_facts::RunFacts;

/// Who an attempt waits for, as the engine says when a clock of an attempt has run out.
const WAITED_FOR: [&str; 3] = ["a tool ", "the model ", "the agent "];

/// The clock that ended a run, if one did.
pub(super) fn cause(facts: &RunFacts, code: OutcomeCode) -> Option<Told> {
    match code {
        OutcomeCode::Deadline => deadline(facts),
        OutcomeCode::ToolTimeout | OutcomeCode::ProviderOverloaded | OutcomeCode::Internal => {
            attempt(facts)
        }
        _ => None,
    }
}

/// A clock of one attempt, told by what the engine wrote: errors of others begin with whose they are.
fn attempt(facts: &RunFacts) -> Option<Told> {
    let run = &facts.run;
    let said = run.detail.as_deref()?;
    let rest = WAITED_FOR.iter().find_map(|who| said.strip_prefix(who))?;
    let who = said.strip_suffix(rest)?.trim_end();
    let (cause, sentence) = if rest.starts_with("said nothing for") {
        (Cause::EndedSilence, format!("{} was given up because {who} {rest}.", run.id))
    } else if rest.starts_with("was not done within the attempt's") {
        (Cause::EndedAttemptClock, format!("{} was given up because {who} {rest}.", run.id))
    } else {
        return None;
    };
    Some(Told::new(cause, sentence).see("failures", run.failure_count))
}

/// The time of the run, or the time it had to begin.
fn deadline(facts: &RunFacts) -> Option<Told> {
    let (run, ended) = (&facts.run, facts.run.ended?);
    if run.detail.as_deref().is_some_and(|said| said.starts_with(LIMIT)) {
        let sentence = format!(
            "{} reached the limit of time of its agent: {}.",
            run.id,
            problem(run.detail.as_deref())
        );
        return Some(Told::new(Cause::EndedWallLimit, sentence));
    }
    let by_caller = facts.task.as_ref().and_then(|task| task.deadline);
    if let Some(at) = run.deadline.filter(|at| *at <= ended) {
        if by_caller == Some(at) {
            let sentence = format!(
                "{} was to be done by {}, the deadline that its caller set, and was not.",
                run.id,
                at.to_rfc3339()
            );
            return Some(
                Told::new(Cause::EndedDeadline, sentence).see("deadline", at.to_rfc3339()),
            );
        }
        let time = Duration::from_millis(run.timeout_ms.unwrap_or_default());
        let sentence = format!("{} took longer than the {} that it has.", run.id, span(time));
        let told = Told::new(Cause::EndedTimeout, sentence).see("timeout", span(time));
        return Some(told.see_some("began", run.started.map(|at| at.to_rfc3339())));
    }
    let at = run.queue_deadline.filter(|at| *at <= ended && run.started.is_none())?;
    let sentence = format!(
        "Nobody began {} by {}, and after that it was not to begin any more.",
        run.id,
        at.to_rfc3339()
    );
    let waited = span(at.since(run.created));
    Some(Told::new(Cause::EndedQueueDeadline, sentence).see("waited for", waited))
}
