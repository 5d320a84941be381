//! Explains why a queued run does not start. Checks its time, its session, its class and the workers, in this order.

mod admission;

use std::time::Duration;

use provost_core::Timestamp;
use provost_core::lifecycle::{InputOutcome, RunPhase};
use provost_core::recovery::OutcomeCode;

use super::builder::{ExplanationBuilder, count, distance, error_detail, span, timestamp};
use super::{Cause, next, run};
use provost_store::query::explain_facts::{RunFacts, SystemFacts};

/// Remaining time before the queue deadline below which the cause is `queue_deadline_near`.
const QUEUE_DEADLINE_WARNING: Duration = Duration::from_secs(60);
/// Time that a ready run may wait before the missing claim itself becomes the cause.
const READY_TOO_LONG: Duration = Duration::from_secs(10);

/// Explains a queued run by the first obstacle: deadline, start time, session, then admission.
pub(super) fn explain(system: &SystemFacts, facts: &RunFacts) -> ExplanationBuilder {
    let explanation = overdue(system, facts)
        .or_else(|| before_start_time(system, facts))
        .or_else(|| session_unavailable(system, facts))
        .or_else(|| admission::explain(system, facts))
        .unwrap_or_else(|| ready(system, facts));
    let run = &facts.run;
    let near = run.queue_deadline.filter(|at| *at > system.now && run.started.is_none());
    let explanation = explanation
        .with_evidence_opt("must start by", near.map(|at| timestamp(system.now, at)))
        .with_evidence_opt("must end by", run.deadline.map(|at| timestamp(system.now, at)))
        .with_evidence("workers alive", system.live_workers().len());
    explanation.with_next_step(next::cancel(run.id))
}

/// Explains a run whose deadline or queue deadline has passed. Returns `None` if neither has.
fn overdue(system: &SystemFacts, facts: &RunFacts) -> Option<ExplanationBuilder> {
    let (run, now) = (&facts.run, system.now);
    let ender = match system.live_workers().len() {
        0 => "no worker is alive to end it",
        _ => "the next check by a worker ends it",
    };
    let explanation = if let Some(at) = run.deadline.filter(|at| *at <= now) {
        let sentence = format!("The deadline of {} passed {}; {ender}.", run.id, distance(now, at));
        ExplanationBuilder::new(Cause::DeadlinePassed, sentence)
            .with_evidence("deadline", timestamp(now, at))
    } else {
        let at = run.queue_deadline.filter(|at| *at <= now && run.started.is_none())?;
        let sentence =
            format!("{} had to start by {} and did not; {ender}.", run.id, timestamp(now, at));
        ExplanationBuilder::new(Cause::QueueDeadlinePassed, sentence)
            .with_evidence("queue deadline", at.to_rfc3339())
    };
    Some(if system.live_workers().is_empty() {
        explanation.with_next_step(next::serve())
    } else {
        explanation
    })
}

/// Explains a run whose start time is in the future. Returns `None` if it is due.
fn before_start_time(system: &SystemFacts, facts: &RunFacts) -> Option<ExplanationBuilder> {
    let (run, now) = (&facts.run, system.now);
    let at = run.not_before;
    if at <= now {
        return None;
    }
    if run.is_deferred() {
        return Some(deferred(facts));
    }
    let explanation = match &facts.attempt {
        None => never_attempted(facts, now, at),
        Some(last) => match last.outcome_code {
            Some(code) => after_failed_attempt(facts, code, now),
            None => {
                let sentence = format!(
                    "{} starts again {} because its last attempt could not write to the database: {}.",
                    run.id,
                    distance(now, at),
                    error_detail(last.detail.as_deref()),
                );
                ExplanationBuilder::new(Cause::Database, sentence)
            }
        },
    };
    Some(explanation.with_evidence("not before", timestamp(now, at)))
}

/// Explains a run that waits for a sibling of the same call.
fn deferred(facts: &RunFacts) -> ExplanationBuilder {
    let run = &facts.run;
    let Some(parent) = run.parent_run_id else {
        let sentence =
            format!("{} is deferred, but it has no parent run that could start it.", run.id);
        return ExplanationBuilder::new(Cause::CallFull, sentence);
    };
    let sentence = format!(
        "{} starts when another run that {parent} started with the same call ends: the concurrency limit of the call is reached.",
        run.id
    );
    ExplanationBuilder::new(Cause::CallFull, sentence)
        .with_related(parent)
        .with_next_step(next::explain(parent))
}

/// Explains a run without an attempt.
fn never_attempted(facts: &RunFacts, now: Timestamp, at: Timestamp) -> ExplanationBuilder {
    let (run, unread) = (&facts.run, &facts.unread);
    if !unread.is_empty() && unread.iter().all(|row| row.outcome == InputOutcome::Collected) {
        let sentence = format!(
            "{} collects messages and starts {} unless another one arrives; it has {} so far.",
            run.id,
            distance(now, at),
            count(unread.len() as u64, "message", "messages"),
        );
        return ExplanationBuilder::new(Cause::MoreMessages, sentence)
            .with_evidence("messages", unread.len());
    }
    let sentence = format!("{} is scheduled for later: it starts {}.", run.id, distance(now, at));
    let by = facts.task.as_ref().and_then(|task| task.spawned_by.as_deref());
    ExplanationBuilder::new(Cause::StartTime, sentence).with_evidence_opt("requested by", by)
}

/// Explains a run whose last attempt failed.
fn after_failed_attempt(facts: &RunFacts, code: OutcomeCode, now: Timestamp) -> ExplanationBuilder {
    let (run, at) = (&facts.run, facts.run.not_before);
    let detail = error_detail(facts.attempt.as_ref().and_then(|last| last.detail.as_deref()));
    let (again, id) = (distance(now, at), run.id);
    let (cause, sentence) = match code {
        OutcomeCode::ProviderRateLimited => (
            Cause::RateLimit,
            format!(
                "The model provider limits the request rate: {id} tries again {again} ({detail})."
            ),
        ),
        OutcomeCode::WorkerLost => (
            Cause::LostWorker,
            format!(
                "The worker of {id} was lost during a step and may still be alive: another worker continues {again}."
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
    ExplanationBuilder::new(cause, sentence)
        .with_evidence("last outcome", code)
        .with_evidence("failures", run.failure_count)
        .with_evidence_opt("last worker", last.map(|last| last.worker_id))
        .with_next_step(next::steps(id))
}

/// Explains a run that waits for other runs of its session. Returns `None` if it is the next one.
fn session_unavailable(system: &SystemFacts, facts: &RunFacts) -> Option<ExplanationBuilder> {
    let run = &facts.run;
    let session = &run.session_id;
    if let Some(holder) = &facts.holder {
        let (other, state) = (holder.run.id, holder.state());
        let (cause, sentence) = match holder.run.phase {
            RunPhase::Leased => (
                Cause::SessionBusy,
                format!(
                    "{} waits for {other}, which is active in the same session `{session}`.",
                    run.id
                ),
            ),
            _ => (
                Cause::SessionHeld,
                format!(
                    "{} waits for {other}, which holds the session `{session}` and is {state}.",
                    run.id
                ),
            ),
        };
        let explanation = ExplanationBuilder::new(cause, sentence)
            .with_evidence("ahead in the session", facts.ahead_in_session)
            .with_related(other)
            .with_next_step(next::explain(other));
        return Some(explanation.caused_by("the other run", run::explain(system, holder)));
    }
    if let Some(first) = facts.first {
        let ahead = count(facts.ahead_in_session, "run", "runs");
        let sentence = format!(
            "{} is behind {ahead} of its session `{session}`; the next one is {first}.",
            run.id
        );
        return Some(
            ExplanationBuilder::new(Cause::SessionTurn, sentence)
                .with_evidence("ahead in the session", facts.ahead_in_session)
                .with_related(first)
                .with_next_step(next::explain(first)),
        );
    }
    None
}

/// Explains a run that is ready to start.
fn ready(system: &SystemFacts, facts: &RunFacts) -> ExplanationBuilder {
    let (run, now) = (&facts.run, system.now);
    let eligible = system.eligible_workers(run);
    let workers = count(eligible.len() as u64, "worker is", "workers are");
    let since = facts.last_event.as_ref().map_or(run.created, |(_, at)| *at).max(run.not_before);
    let waited = now.since(since);
    let near = run.queue_deadline.filter(|_| run.started.is_none());
    let explanation = if let Some(at) = near.filter(|at| *at <= now.after(QUEUE_DEADLINE_WARNING)) {
        let sentence = format!(
            "{} is ready, but its queue deadline ends it {} unless a worker starts it first; {workers} alive.",
            run.id,
            distance(now, at),
        );
        ExplanationBuilder::new(Cause::QueueDeadlineNear, sentence)
    } else if waited >= READY_TOO_LONG {
        let sentence = format!(
            "{} has been ready for {} and no worker claims it, although {workers} alive with free capacity in the pool `{}`: they may be frozen or disconnected from the database.",
            run.id,
            span(waited),
            run.pool,
        );
        let seen = eligible.iter().map(|worker| worker.row.last_heartbeat).max();
        ExplanationBuilder::new(Cause::ReadyNotClaimed, sentence)
            .with_evidence("pool", &run.pool)
            .with_evidence_opt("a worker was last seen", seen.map(|at| timestamp(now, at)))
            .with_next_step(next::serve())
    } else {
        let ahead = count(facts.ahead_in_class, "run", "runs");
        let sentence = format!(
            "{} is ready to be claimed: {ahead} of its class ahead of it, {workers} alive.",
            run.id,
        );
        ExplanationBuilder::new(Cause::Ready, sentence)
    };
    explanation
        .with_evidence("ready since", since.to_rfc3339())
        .with_evidence("ahead in its class", facts.ahead_in_class)
}
