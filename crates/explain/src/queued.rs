//! Why a run that no worker has does not start: its time, its session, its class, and those who work, in this order.

mod admission;

use std::time::Duration;

use provost_core::Timestamp;
use provost_core::lifecycle::DeliveryOutcome;
use provost_core::recovery::OutcomeCode;

use super::told::{Told, count, distance, moment, problem, span};
use super::{Cause, next, run};
use provost_store::query::explain_facts::{Here, RunFacts};

/// So close to its end that a run which waits for a worker must be told of.
const NEAR: Duration = Duration::from_secs(60);
/// A run that has been ready for so long should have been taken.
const LONG: Duration = Duration::from_secs(10);

/// The cause of a queued run.
pub(super) fn cause(here: &Here, facts: &RunFacts) -> Told {
    let told = overdue(here, facts)
        .or_else(|| too_early(here, facts))
        .or_else(|| not_its_turn(here, facts))
        .or_else(|| admission::cause(here, facts))
        .unwrap_or_else(|| ready(here, facts));
    let run = &facts.run;
    let near = run.queue_deadline.filter(|at| *at > here.now && run.started.is_none());
    let told = told
        .see_some("must start by", near.map(|at| moment(here.now, at)))
        .see_some("must end by", run.deadline.map(|at| moment(here.now, at)))
        .see("workers alive", here.alive().len());
    told.then(next::cancel(run.id))
}

/// Its time was over before anybody could begin.
fn overdue(here: &Here, facts: &RunFacts) -> Option<Told> {
    let (run, now) = (&facts.run, here.now);
    let nobody = match here.alive().len() {
        0 => "no worker is alive to end it",
        _ => "it ends as soon as a worker looks",
    };
    let told = if let Some(at) = run.deadline.filter(|at| *at <= now) {
        let sentence =
            format!("The deadline of {} passed {} and {nobody}.", run.id, distance(now, at));
        Told::new(Cause::DeadlinePassed, sentence).see("deadline", moment(now, at))
    } else {
        let at = run.queue_deadline.filter(|at| *at <= now && run.started.is_none())?;
        let sentence =
            format!("{} had to be started by {} and was not; {nobody}.", run.id, moment(now, at));
        Told::new(Cause::QueueDeadlinePassed, sentence).see("had to start by", at.to_rfc3339())
    };
    Some(if here.alive().is_empty() { told.then(next::serve()) } else { told })
}

/// It may not start yet.
fn too_early(here: &Here, facts: &RunFacts) -> Option<Told> {
    let (run, now) = (&facts.run, here.now);
    let at = run.not_before;
    if at <= now {
        return None;
    }
    if run.is_deferred() {
        return Some(behind_others(facts));
    }
    let told = match &facts.attempt {
        None => not_begun(facts, now, at),
        Some(last) => match last.outcome_code.as_deref().and_then(|code| code.parse().ok()) {
            Some(code) => after_failure(facts, code, now),
            None => {
                let sentence = format!(
                    "{} starts again {}, because the database did not take what its last attempt wrote: {}.",
                    run.id,
                    distance(now, at),
                    problem(last.detail.as_deref()),
                );
                Told::new(Cause::Database, sentence)
            }
        },
    };
    Some(told.see("not before", moment(now, at)))
}

/// Others that the same call has started go first.
fn behind_others(facts: &RunFacts) -> Told {
    let run = &facts.run;
    let Some(parent) = run.parent_run_id else {
        let sentence =
            format!("{} is held back, and no run is above it that would let it begin.", run.id);
        return Told::new(Cause::CallFull, sentence);
    };
    let sentence = format!(
        "{} begins when another run has ended that {parent} started with the same call: as many as may are at work.",
        run.id
    );
    Told::new(Cause::CallFull, sentence).about(parent).then(next::explain(parent))
}

/// It was never begun.
fn not_begun(facts: &RunFacts, now: Timestamp, at: Timestamp) -> Told {
    let (run, unread) = (&facts.run, &facts.unread);
    let collected = DeliveryOutcome::Collected.as_str();
    if !unread.is_empty() && unread.iter().all(|row| row.outcome == collected) {
        let sentence = format!(
            "{} collects messages and begins with all of them {}, unless one more comes; it has {} so far.",
            run.id,
            distance(now, at),
            count(unread.len() as u64, "message", "messages"),
        );
        return Told::new(Cause::MoreMessages, sentence).see("messages", unread.len());
    }
    let sentence = format!("{} was asked for later: it starts {}.", run.id, distance(now, at));
    let by = facts.task.as_ref().and_then(|task| task.spawned_by.as_deref());
    Told::new(Cause::StartTime, sentence).see_some("asked for by", by)
}

/// Its last attempt failed.
fn after_failure(facts: &RunFacts, code: OutcomeCode, now: Timestamp) -> Told {
    let (run, at) = (&facts.run, facts.run.not_before);
    let detail = problem(facts.attempt.as_ref().and_then(|last| last.detail.as_deref()));
    let (again, id) = (distance(now, at), run.id);
    let (cause, sentence) = match code {
        OutcomeCode::ProviderRateLimited => (
            Cause::RateLimit,
            format!(
                "The model's provider wants to be left alone: {id} tries again {again} ({detail})."
            ),
        ),
        OutcomeCode::WorkerLost => (
            Cause::LostWorker,
            format!(
                "The worker of {id} was lost in the middle of a step and may still be alive: another one goes on {again}."
            ),
        ),
        code => (
            Cause::Retry,
            format!(
                "The last attempt of {id} failed with {code} ({detail}); try {} of {} starts {again}.",
                run.failure_count + 1,
                facts.policy.retry.max_attempts,
            ),
        ),
    };
    let last = facts.attempt.as_ref();
    Told::new(cause, sentence)
        .see("last outcome", code)
        .see("failures", run.failure_count)
        .see_some("last worker", last.map(|last| last.worker_id))
        .then(next::steps(id))
}

/// Others of its session come first.
fn not_its_turn(here: &Here, facts: &RunFacts) -> Option<Told> {
    let run = &facts.run;
    let session = &run.session_id;
    if let Some(holder) = &facts.holder {
        let (other, state) = (holder.run.id, holder.state());
        let (cause, sentence) = match holder.run.phase.as_str() {
            "leased" => (
                Cause::SessionBusy,
                format!(
                    "{} waits for {other}, which works in the same session `{session}`.",
                    run.id
                ),
            ),
            _ => (
                Cause::SessionHeld,
                format!(
                    "{} waits for {other}, which has the session `{session}` and is {state}.",
                    run.id
                ),
            ),
        };
        let told = Told::new(cause, sentence)
            .see("ahead in the session", facts.ahead_in_session)
            .about(other)
            .then(next::explain(other));
        return Some(told.because_of("the other run", run::cause(here, holder)));
    }
    if let Some(first) = facts.first {
        let ahead = count(facts.ahead_in_session, "run", "runs");
        let sentence = format!(
            "{} is behind {ahead} of its session `{session}`; the next one is {first}.",
            run.id
        );
        return Some(
            Told::new(Cause::SessionTurn, sentence)
                .see("ahead in the session", facts.ahead_in_session)
                .about(first)
                .then(next::explain(first)),
        );
    }
    None
}

/// Nothing keeps it from its start.
fn ready(here: &Here, facts: &RunFacts) -> Told {
    let (run, now) = (&facts.run, here.now);
    let takers = here.takers(run);
    let workers = count(takers.len() as u64, "worker is", "workers are");
    let since = facts.last_event.as_ref().map_or(run.created, |(_, at)| *at).max(run.not_before);
    let waited = now.since(since);
    let near = run.queue_deadline.filter(|_| run.started.is_none());
    let told = if let Some(at) = near.filter(|at| *at <= now.after(NEAR)) {
        let sentence = format!(
            "{} is ready and ends by itself {} unless a worker begins it before; {workers} alive.",
            run.id,
            distance(now, at),
        );
        Told::new(Cause::QueueDeadlineNear, sentence)
    } else if waited >= LONG {
        let sentence = format!(
            "{} has been ready for {} and nobody takes it, though {workers} alive that serve the pool `{}` and have a place: they may be frozen or cut off from the database.",
            run.id,
            span(waited),
            run.pool,
        );
        let seen = takers.iter().map(|node| node.row.seen).max();
        Told::new(Cause::ReadyNotClaimed, sentence)
            .see("pool", &run.pool)
            .see_some("a worker was last seen", seen.map(|at| moment(now, at)))
            .then(next::serve())
    } else {
        let ahead = count(facts.ahead_in_class, "run", "runs");
        let sentence = format!(
            "{} is ready and is taken at the next moment: {ahead} of its class come before it and {workers} alive.",
            run.id,
        );
        Told::new(Cause::Ready, sentence)
    };
    told.see("ready since", since.to_rfc3339()).see("ahead in its class", facts.ahead_in_class)
}
