//! Explains why no worker claims a run that is next in its session: its class, the concurrency limits, or the
//! workers.

use std::collections::BTreeSet;

use provost_core::Timestamp;

use super::super::builder::{ExplanationBuilder, count, distance, timestamp};
use super::super::{Cause, next};
use provost_store::query::explain_facts::{RunFacts, SystemFacts, WorkerFacts};

/// Explains the first obstacle to the start of a run. Returns `None` if there is none.
pub(super) fn explain(system: &SystemFacts, facts: &RunFacts) -> Option<ExplanationBuilder> {
    paused(facts)
        .or_else(|| no_worker(system, facts))
        .or_else(|| not_marked_ready(facts))
        .or_else(|| breaker(system, facts))
        .or_else(|| class_full(facts))
        .or_else(|| limits_reached(facts))
        .or_else(|| workers_unavailable(system, facts))
}

/// Explains that the class of the run is paused. Returns `None` if it is not.
fn paused(facts: &RunFacts) -> Option<ExplanationBuilder> {
    let class = &facts.class;
    if class.max_running > 0 {
        return None;
    }
    let sentence = format!(
        "The class {} of {} is paused: its concurrency limit is 0.",
        class.key, facts.run.id
    );
    Some(
        ExplanationBuilder::new(Cause::ClassPaused, sentence)
            .with_evidence("concurrency limit", class.max_running)
            .with_evidence("running in the class", class.running)
            .with_related(&class.key)
            .with_next_step(next::class(
                &class.key,
                provost_core::scheduling::CLASS_CONCURRENCY_DEFAULT,
            )),
    )
}

/// Explains that no live worker can run it: there is none, none is new enough, none serves its pool and session, or
/// all have stopped starting runs. Returns `None` if one can.
fn no_worker(system: &SystemFacts, facts: &RunFacts) -> Option<ExplanationBuilder> {
    let (run, alive) = (&facts.run, system.live_workers());
    if alive.is_empty() {
        let last = system.workers.iter().map(|worker| worker.row.last_heartbeat).max();
        let sentence = format!("{} waits for a worker, but no worker is alive.", run.id);
        return Some(
            ExplanationBuilder::new(Cause::NoWorker, sentence)
                .with_evidence_opt(
                    "a worker was last seen",
                    last.map(|at| timestamp(system.now, at)),
                )
                .with_next_step(next::serve()),
        );
    }
    let newest = alive.iter().map(|worker| worker.row.build).max().unwrap_or_default();
    if newest < run.min_build {
        let sentence = format!(
            "{} needs a worker of build {} or newer, but the newest live worker has build {newest}.",
            run.id, run.min_build,
        );
        return Some(
            ExplanationBuilder::new(Cause::NewerWorker, sentence)
                .with_evidence("required build", run.min_build)
                .with_evidence("newest build", newest)
                .with_next_step(next::serve()),
        );
    }
    no_matching_worker(system, facts).or_else(|| boot_guard(system, facts))
}

/// Explains that the live workers serve other pools or sessions. Returns `None` if one of them matches.
fn no_matching_worker(system: &SystemFacts, facts: &RunFacts) -> Option<ExplanationBuilder> {
    let (run, alive) = (&facts.run, system.live_workers());
    let workers = count(alive.len() as u64, "worker", "workers");
    let pools: BTreeSet<&str> = alive.iter().map(|worker| worker.row.pool.as_str()).collect();
    if !pools.contains(run.pool.as_str()) {
        let pools = Vec::from_iter(pools).join("`, `");
        let sentence = format!(
            "{} waits for a worker of the pool `{}`: {workers} alive, of the pool `{pools}`.",
            run.id, run.pool,
        );
        return Some(
            ExplanationBuilder::new(Cause::OtherPool, sentence)
                .with_evidence("pool", &run.pool)
                .with_evidence("served pools", pools)
                .with_next_step(next::serve()),
        );
    }
    if !system.eligible_workers(run).is_empty() {
        return None;
    }
    let served = alive.iter().flat_map(|worker| worker.session_filter.iter().flatten());
    let served: Vec<&str> = served.map(|(_, session)| session.as_str()).collect();
    let sentence = format!(
        "{} waits for a worker that serves its session `{}`: {workers} alive, for other sessions only.",
        run.id, run.session_id,
    );
    Some(
        ExplanationBuilder::new(Cause::OtherSessions, sentence)
            .with_evidence("session", &run.session_id)
            .with_evidence("served sessions", served.join(", "))
            .with_next_step(next::serve()),
    )
}

/// Explains that every eligible worker has stopped starting runs after repeated crashes. Returns `None` otherwise.
fn boot_guard(system: &SystemFacts, facts: &RunFacts) -> Option<ExplanationBuilder> {
    let (run, eligible) = (&facts.run, system.eligible_workers(&facts.run));
    let idle = eligible
        .iter()
        .map(|worker| worker.row.claims_paused_until.filter(|until| *until > system.now));
    let until: Timestamp = idle.collect::<Option<Vec<_>>>()?.into_iter().min()?;
    let sentence = format!(
        "The service crashed repeatedly, so it starts no runs for a while: {} can start {}.",
        run.id,
        distance(system.now, until),
    );
    Some(
        ExplanationBuilder::new(Cause::BootGuard, sentence)
            .with_evidence("starts nothing until", timestamp(system.now, until)),
    )
}

/// Explains that the run is due and first in its session, but its row is not marked as ready. Returns `None`
/// otherwise.
fn not_marked_ready(facts: &RunFacts) -> Option<ExplanationBuilder> {
    if facts.run.ready {
        return None;
    }
    let sentence = format!(
        "{} is due and first in its session but not marked as ready: a worker repairs this at its next check, within 30 \
         seconds.",
        facts.run.id
    );
    Some(
        ExplanationBuilder::new(Cause::DueNotMarked, sentence)
            .with_evidence("marked as ready", false),
    )
}

/// Explains that the circuit breaker of the class is open. Returns `None` otherwise.
fn breaker(system: &SystemFacts, facts: &RunFacts) -> Option<ExplanationBuilder> {
    let class = &facts.class;
    let until = class.probe_at.filter(|until| *until > system.now)?;
    let failures = serde_json::from_str::<Vec<Timestamp>>(&class.failures).unwrap_or_default();
    let sentence = format!(
        "The last {} of the class {} failed to start, so {} waits: the next try is {}.",
        count(failures.len() as u64, "run", "runs"),
        class.key,
        facts.run.id,
        distance(system.now, until),
    );
    let last = failures.last().map(|at| timestamp(system.now, *at));
    Some(
        ExplanationBuilder::new(Cause::ClassBreaker, sentence)
            .with_evidence("health of the class", class.health)
            .with_evidence("next try", timestamp(system.now, until))
            .with_evidence_opt("last failure", last)
            .with_related(&class.key),
    )
}

/// Explains that all slots of the class are in use. Returns `None` otherwise.
fn class_full(facts: &RunFacts) -> Option<ExplanationBuilder> {
    let (run, class) = (&facts.run, &facts.class);
    if class.running < class.max_running {
        return None;
    }
    let sentence = format!(
        "{} of {} slots of the class {} are in use; {} comes after {}.",
        class.running,
        class.max_running,
        class.key,
        run.id,
        count(facts.ahead_in_class, "other run", "other runs"),
    );
    Some(
        ExplanationBuilder::new(Cause::ClassFull, sentence)
            .with_evidence("concurrency limit", class.max_running)
            .with_evidence("running in the class", class.running)
            .with_evidence("ahead in its class", facts.ahead_in_class)
            .with_related(&class.key)
            .with_next_step(next::runs())
            .with_next_step(next::class(&class.key, class.max_running * 2)),
    )
}

/// Explains that a concurrency limit of the run is reached. Returns `None` otherwise.
fn limits_reached(facts: &RunFacts) -> Option<ExplanationBuilder> {
    let run = &facts.run;
    let scopes = [
        (&facts.namespace_ceiling, Cause::NamespaceCeiling, "namespace", &run.namespace),
        (&facts.pool_ceiling, Cause::PoolCeiling, "pool", &run.pool),
    ];
    for (ceiling, cause, what, name) in scopes {
        let Some(row) = ceiling.as_ref().filter(|row| row.running >= row.max_running) else {
            continue;
        };
        let sentence = format!(
            "The {what} `{name}` is limited to {} at a time and has {}, so {} waits.",
            count(row.max_running, "run", "runs"),
            row.running,
            run.id,
        );
        return Some(
            ExplanationBuilder::new(cause, sentence)
                .with_evidence("concurrency limit", row.max_running)
                .with_evidence("running", row.running)
                .with_next_step(next::runs()),
        );
    }
    None
}

/// Explains that every eligible worker is draining or at its capacity. Returns `None` otherwise.
fn workers_unavailable(system: &SystemFacts, facts: &RunFacts) -> Option<ExplanationBuilder> {
    let run = &facts.run;
    let able = system.eligible_workers(run);
    let workers = count(able.len() as u64, "worker", "workers");
    if able.iter().all(|worker| worker.row.draining.is_some()) {
        let sentence =
            format!("{} waits for another worker: {workers} alive, but draining.", run.id);
        let explanation =
            ExplanationBuilder::new(Cause::WorkersDraining, sentence).with_next_step(next::serve());
        return Some(
            able.iter()
                .fold(explanation, |explanation, worker| explanation.with_related(worker.row.id)),
        );
    }
    let works = |worker: &&&WorkerFacts| worker.row.draining.is_none();
    if able.iter().filter(works).any(|worker| worker.leased_runs < worker.row.capacity) {
        return None;
    }
    let carried: u64 = able.iter().map(|worker| worker.leased_runs).sum();
    let capacity: u64 = able.iter().map(|worker| worker.row.capacity).sum();
    let sentence = format!(
        "{} waits for a free worker: {workers} alive, executing {carried} of at most {capacity} runs.",
        run.id,
    );
    Some(
        ExplanationBuilder::new(Cause::WorkersFull, sentence)
            .with_evidence("capacity", capacity)
            .with_evidence("executing runs", carried)
            .with_next_step(next::runs())
            .with_next_step(next::serve()),
    )
}
