//! Explains which timeout ended a run: the queue deadline, the attempt timeout, the run timeout or the idle timeout.

use std::time::Duration;

use provost_core::recovery::OutcomeCode;

use super::super::Cause;
use super::super::builder::{ExplanationBuilder, error_detail, span};
use super::LIMIT_PREFIX;
use provost_store::query::explain_facts::RunFacts;

/// Subjects that an attempt waits for, as they begin the engine's detail of an attempt timeout.
const WAIT_SUBJECTS: [&str; 3] = ["a tool ", "the model ", "the agent "];

/// Prefixes of the engine's detail of an idle timeout. The second one is the text of earlier versions.
const IDLE_DETAILS: [&str; 2] = ["produced no event for", "said nothing for"];
/// Prefixes of the engine's detail of an attempt timeout. The second one is the text of earlier versions.
const ATTEMPT_DETAILS: [&str; 2] =
    ["did not finish within the attempt's", "was not done within the attempt's"];

/// Explains the timeout that ended a run. Returns `None` if no timeout did.
pub(super) fn explain(facts: &RunFacts, code: OutcomeCode) -> Option<ExplanationBuilder> {
    match code {
        OutcomeCode::DeadlineExceeded => deadline(facts),
        OutcomeCode::ToolTimeout | OutcomeCode::ProviderOverloaded | OutcomeCode::Internal => {
            attempt(facts)
        }
        _ => None,
    }
}

/// Explains an attempt timeout by the detail that the engine stored. Returns `None` for the details of other errors,
/// which begin with other subjects.
fn attempt(facts: &RunFacts) -> Option<ExplanationBuilder> {
    let run = &facts.run;
    let run_detail = run.detail.as_deref()?;
    let rest = WAIT_SUBJECTS.iter().find_map(|who| run_detail.strip_prefix(who))?;
    let who = run_detail.strip_suffix(rest)?.trim_end();
    let (cause, sentence) = if IDLE_DETAILS.iter().any(|prefix| rest.starts_with(prefix)) {
        (Cause::EndedIdleTimeout, format!("{} was given up because {who} {rest}.", run.id))
    } else if ATTEMPT_DETAILS.iter().any(|prefix| rest.starts_with(prefix)) {
        (Cause::EndedAttemptTimeout, format!("{} was given up because {who} {rest}.", run.id))
    } else {
        return None;
    };
    Some(ExplanationBuilder::new(cause, sentence).with_evidence("failures", run.failure_count))
}

/// Explains an exceeded deadline, run timeout or queue deadline. Returns `None` if none was exceeded.
fn deadline(facts: &RunFacts) -> Option<ExplanationBuilder> {
    let (run, ended) = (&facts.run, facts.run.ended?);
    if run.detail.as_deref().is_some_and(|run_detail| run_detail.starts_with(LIMIT_PREFIX)) {
        let sentence = format!(
            "{} reached the time limit of its agent: {}.",
            run.id,
            error_detail(run.detail.as_deref())
        );
        return Some(ExplanationBuilder::new(Cause::EndedWallLimit, sentence));
    }
    let by_caller = facts.task.as_ref().and_then(|task| task.deadline);
    if let Some(at) = run.deadline.filter(|at| *at <= ended) {
        if by_caller == Some(at) {
            let sentence = format!(
                "{} did not finish by {}, the deadline that its caller set.",
                run.id,
                at.to_rfc3339()
            );
            return Some(
                ExplanationBuilder::new(Cause::EndedDeadline, sentence)
                    .with_evidence("deadline", at.to_rfc3339()),
            );
        }
        let time = Duration::from_millis(run.timeout_ms.unwrap_or_default());
        let sentence = format!("{} exceeded its timeout of {}.", run.id, span(time));
        let explanation = ExplanationBuilder::new(Cause::EndedTimeout, sentence)
            .with_evidence("timeout", span(time));
        return Some(
            explanation.with_evidence_opt("started", run.started.map(|at| at.to_rfc3339())),
        );
    }
    let at = run.queue_deadline.filter(|at| *at <= ended && run.started.is_none())?;
    let sentence =
        format!("No worker started {} by {}, its queue deadline.", run.id, at.to_rfc3339());
    let waited = span(at.since(run.created));
    Some(
        ExplanationBuilder::new(Cause::EndedQueueDeadline, sentence)
            .with_evidence("waited", waited),
    )
}
