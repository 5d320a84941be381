//! Why a task is not done, or how it ended: mostly its run says.

use provost_core::lifecycle::TaskState;

use super::told::{Told, distance, moment};
use super::{Cause, next, run};
use provost_store::query::explain_facts::{Here, RunFacts, TaskFacts};

/// The cause of where a task stands.
pub(super) fn cause(here: &Here, facts: &TaskFacts) -> Told {
    let task = &facts.task;
    if let Some(at) = task.archived {
        let sentence = format!(
            "{} was put away {}; it was {} before.",
            task.id,
            distance(here.now, at),
            task.state
        );
        let told = Told::new(Cause::TaskArchived, sentence).see("put away", moment(here.now, at));
        return with_run(here, told, facts.run.as_ref());
    }
    let state = task.state.parse();
    if state == Ok(TaskState::Dropped) {
        let why = task.drop_reason.as_deref().unwrap_or("no reason was written down");
        let sentence = format!("{} was dropped before it was done: {why}.", task.id);
        let told = Told::new(Cause::TaskDropped, sentence).see("reason", why);
        return with_run(here, told, facts.run.as_ref()).then(next::retry(task.id));
    }
    let Some(current) = &facts.run else {
        let sentence = format!(
            "{} is {} but no run of it is stored: it was removed or never made.",
            task.id, task.state
        );
        return Told::new(Cause::TaskWithoutRun, sentence)
            .see("runs so far", task.run_count)
            .then(next::session(&task.session_id));
    };
    if state == Ok(TaskState::Done) {
        let sentence = format!(
            "{} is done: {} answered {}.",
            task.id,
            current.run.id,
            distance(here.now, task.ended.unwrap_or(task.updated)),
        );
        return with_run(here, Told::new(Cause::TaskDone, sentence), Some(current));
    }
    let at = current.run.not_before;
    if state == Ok(TaskState::Sleeping) && at > here.now {
        let sentence = format!("{} sleeps and begins {}.", task.id, distance(here.now, at));
        let told = Told::new(Cause::TaskSleeping, sentence).see("begins", moment(here.now, at));
        return told.about(current.run.id).then(next::cancel(current.run.id));
    }
    // It is where its run is.
    let told = run::cause(here, current);
    let mut related = vec![current.run.id.to_string()];
    related
        .extend(told.related.iter().filter(|id| **id != related[0]).cloned().collect::<Vec<_>>());
    Told { related, ..told }
}

fn with_run(here: &Here, told: Told, current: Option<&RunFacts>) -> Told {
    match current {
        Some(current) => {
            let told = told.about(current.run.id);
            told.because_of("its run", run::cause(here, current))
        }
        None => told,
    }
}
