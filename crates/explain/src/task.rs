//! Explains why a task is not done or how it ended, mostly through its current run.

use provost_core::lifecycle::TaskState;

use super::builder::{ExplanationBuilder, distance, timestamp};
use super::{Cause, next, run};
use provost_store::query::explain_facts::{RunFacts, SystemFacts, TaskFacts};

/// Explains the state of a task: archived, dropped, without a run, done, scheduled, or else the state of its current
/// run.
pub(super) fn explain(system: &SystemFacts, facts: &TaskFacts) -> ExplanationBuilder {
    let task = &facts.task;
    if let Some(at) = task.archived {
        let sentence = format!(
            "{} was archived {}; it was {}.",
            task.id,
            distance(system.now, at),
            task.state
        );
        let explanation = ExplanationBuilder::new(Cause::TaskArchived, sentence)
            .with_evidence("archived", timestamp(system.now, at));
        return with_run(system, explanation, facts.run.as_ref());
    }
    if task.state == TaskState::Dropped {
        let why = task.drop_reason.as_deref().unwrap_or("no reason was recorded");
        let sentence = format!("{} was dropped before it finished: {why}.", task.id);
        let explanation =
            ExplanationBuilder::new(Cause::TaskDropped, sentence).with_evidence("reason", why);
        return with_run(system, explanation, facts.run.as_ref())
            .with_next_step(next::retry(task.id));
    }
    let Some(current) = &facts.run else {
        let sentence = format!(
            "{} is {} but has no stored run: its run was removed or never created.",
            task.id, task.state
        );
        return ExplanationBuilder::new(Cause::TaskWithoutRun, sentence)
            .with_evidence("runs", task.run_count)
            .with_next_step(next::session(&task.session_id));
    };
    if task.state == TaskState::Done {
        let sentence = format!(
            "{} is done: {} finished {}.",
            task.id,
            current.run.id,
            distance(system.now, task.ended.unwrap_or(task.updated)),
        );
        return with_run(system, ExplanationBuilder::new(Cause::TaskDone, sentence), Some(current));
    }
    let at = current.run.not_before;
    if task.state == TaskState::Sleeping && at > system.now {
        let sentence = format!("{} is scheduled to start {}.", task.id, distance(system.now, at));
        let explanation = ExplanationBuilder::new(Cause::TaskSleeping, sentence)
            .with_evidence("start time", timestamp(system.now, at));
        return explanation
            .with_related(current.run.id)
            .with_next_step(next::cancel(current.run.id));
    }
    // The state of the task is the state of its run.
    let explanation = run::explain(system, current);
    let mut related = vec![current.run.id.to_string()];
    related.extend(
        explanation.related.iter().filter(|id| **id != related[0]).cloned().collect::<Vec<_>>(),
    );
    ExplanationBuilder { related, ..explanation }
}

/// Adds the explanation of the current run, if there is one.
fn with_run(
    system: &SystemFacts,
    explanation: ExplanationBuilder,
    current: Option<&RunFacts>,
) -> ExplanationBuilder {
    match current {
        Some(current) => {
            let explanation = explanation.with_related(current.run.id);
            explanation.caused_by("its run", run::explain(system, current))
        }
        None => explanation,
    }
}
