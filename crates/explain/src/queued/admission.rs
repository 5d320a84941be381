//! Why nobody takes a run whose turn it is: its class, the ceilings, and those who work.

use std::collections::BTreeSet;

use provost_core::Timestamp;

use super::super::told::{Told, count, distance, moment};
use super::super::{Cause, next};
use provost_store::query::explain_facts::{Here, Node, RunFacts};

/// What keeps a run from its start, if anything does.
pub(super) fn cause(here: &Here, facts: &RunFacts) -> Option<Told> {
    paused(facts)
        .or_else(|| nobody(here, facts))
        .or_else(|| unmarked(facts))
        .or_else(|| breaker(here, facts))
        .or_else(|| full(facts))
        .or_else(|| ceilings(facts))
        .or_else(|| busy(here, facts))
}

fn paused(facts: &RunFacts) -> Option<Told> {
    let class = &facts.class;
    if class.desired > 0 {
        return None;
    }
    let sentence = format!(
        "The class {} of {} is paused: its target is 0 runs at once.",
        class.key, facts.run.id
    );
    Some(
        Told::new(Cause::ClassPaused, sentence)
            .see("target of the class", class.desired)
            .see("at work in the class", class.running)
            .about(&class.key)
            .then(next::class(&class.key, provost_core::scheduling::CLASS_DESIRED_DEFAULT)),
    )
}

/// Nobody works, or nobody who could do this.
fn nobody(here: &Here, facts: &RunFacts) -> Option<Told> {
    let (run, alive) = (&facts.run, here.alive());
    if alive.is_empty() {
        let last = here.nodes.iter().map(|node| node.row.seen).max();
        let sentence = format!("{} waits for a worker and no worker is alive.", run.id);
        return Some(
            Told::new(Cause::NoWorker, sentence)
                .see_some("a worker was last seen", last.map(|at| moment(here.now, at)))
                .then(next::serve()),
        );
    }
    let newest = alive.iter().map(|node| node.row.build).max().unwrap_or_default();
    if newest < run.min_build {
        let sentence = format!(
            "{} needs a worker of build {} and the newest that is alive is of build {newest}.",
            run.id, run.min_build,
        );
        return Some(
            Told::new(Cause::NewerWorker, sentence)
                .see("needed build", run.min_build)
                .see("newest build", newest)
                .then(next::serve()),
        );
    }
    others_only(here, facts).or_else(|| guarded(here, facts))
}

/// Those who work serve others.
fn others_only(here: &Here, facts: &RunFacts) -> Option<Told> {
    let (run, alive) = (&facts.run, here.alive());
    let workers = count(alive.len() as u64, "worker", "workers");
    let pools: BTreeSet<&str> = alive.iter().map(|node| node.row.pool.as_str()).collect();
    if !pools.contains(run.pool.as_str()) {
        let pools = Vec::from_iter(pools).join("`, `");
        let sentence = format!(
            "{} waits for a worker of the pool `{}`: {workers} alive, of the pool `{pools}`.",
            run.id, run.pool,
        );
        return Some(
            Told::new(Cause::OtherPool, sentence)
                .see("pool", &run.pool)
                .see("pools that are served", pools)
                .then(next::serve()),
        );
    }
    if !here.takers(run).is_empty() {
        return None;
    }
    let served = alive.iter().flat_map(|node| node.focus.iter().flatten());
    let served: Vec<&str> = served.map(|(_, session)| session.as_str()).collect();
    let sentence = format!(
        "{} waits for a worker that serves its session `{}`: {workers} alive, for other sessions only.",
        run.id, run.session_id,
    );
    Some(
        Told::new(Cause::OtherSessions, sentence)
            .see("session", &run.session_id)
            .see("sessions that are served", served.join(", "))
            .then(next::serve()),
    )
}

/// Those who could do it begin nothing for a while.
fn guarded(here: &Here, facts: &RunFacts) -> Option<Told> {
    let (run, takers) = (&facts.run, here.takers(&facts.run));
    let idle = takers.iter().map(|node| node.row.idle_until.filter(|until| *until > here.now));
    let until: Timestamp = idle.collect::<Option<Vec<_>>>()?.into_iter().min()?;
    let sentence = format!(
        "The service crashed again and again, so nothing is begun for a while: {} can start {}.",
        run.id,
        distance(here.now, until),
    );
    Some(Told::new(Cause::BootGuard, sentence).see("begins nothing until", moment(here.now, until)))
}

/// It is due and first in its session, and is not marked as that.
fn unmarked(facts: &RunFacts) -> Option<Told> {
    if facts.run.ready {
        return None;
    }
    let sentence = format!(
        "{} is due and first in its session but not marked as ready: a worker repairs that at its next look, within half a \
         minute.",
        facts.run.id
    );
    Some(Told::new(Cause::DueUnmarked, sentence).see("marked as ready", false))
}

fn breaker(here: &Here, facts: &RunFacts) -> Option<Told> {
    let class = &facts.class;
    let until = class.probe_at.filter(|until| *until > here.now)?;
    let failures = serde_json::from_str::<Vec<Timestamp>>(&class.failures).unwrap_or_default();
    let sentence = format!(
        "The last {} of the class {} could not even be started, so {} waits: one is tried {}.",
        count(failures.len() as u64, "run", "runs"),
        class.key,
        facts.run.id,
        distance(here.now, until),
    );
    let last = failures.last().map(|at| moment(here.now, *at));
    Some(
        Told::new(Cause::Breaker, sentence)
            .see("health of the class", &class.health)
            .see("next try", moment(here.now, until))
            .see_some("last failure", last)
            .about(&class.key),
    )
}

fn full(facts: &RunFacts) -> Option<Told> {
    let (run, class) = (&facts.run, &facts.class);
    if class.running < class.desired {
        return None;
    }
    let sentence = format!(
        "{} of {} places of the class {} are taken; {} comes after {}.",
        class.running,
        class.desired,
        class.key,
        run.id,
        count(facts.ahead_in_class, "other run", "other runs"),
    );
    Some(
        Told::new(Cause::ClassFull, sentence)
            .see("target of the class", class.desired)
            .see("at work in the class", class.running)
            .see("ahead in its class", facts.ahead_in_class)
            .about(&class.key)
            .then(next::runs())
            .then(next::class(&class.key, class.desired * 2)),
    )
}

fn ceilings(facts: &RunFacts) -> Option<Told> {
    let run = &facts.run;
    let scopes = [
        (&facts.namespace_ceiling, Cause::NamespaceCeiling, "namespace", &run.namespace),
        (&facts.pool_ceiling, Cause::PoolCeiling, "pool", &run.pool),
    ];
    for (ceiling, cause, what, name) in scopes {
        let Some(row) = ceiling.as_ref().filter(|row| row.running >= row.desired) else { continue };
        let sentence = format!(
            "The {what} `{name}` may have {} at work at once and has {}, so {} waits.",
            count(row.desired, "run", "runs"),
            row.running,
            run.id,
        );
        return Some(
            Told::new(cause, sentence)
                .see("ceiling", row.desired)
                .see("at work below it", row.running)
                .then(next::runs()),
        );
    }
    None
}

/// Those who could do it have no place for it.
fn busy(here: &Here, facts: &RunFacts) -> Option<Told> {
    let run = &facts.run;
    let able = here.takers(run);
    let workers = count(able.len() as u64, "worker", "workers");
    if able.iter().all(|node| node.row.draining.is_some()) {
        let sentence =
            format!("{} waits for another worker: {workers} alive, and stopping.", run.id);
        let told = Told::new(Cause::WorkersDraining, sentence).then(next::serve());
        return Some(able.iter().fold(told, |told, node| told.about(node.row.id)));
    }
    let works = |node: &&&Node| node.row.draining.is_none();
    if able.iter().filter(works).any(|node| node.carries < node.row.capacity) {
        return None;
    }
    let carried: u64 = able.iter().map(|node| node.carries).sum();
    let capacity: u64 = able.iter().map(|node| node.row.capacity).sum();
    let sentence = format!(
        "{} waits for a free worker: {workers} alive, and together they carry {carried} of at most {capacity} runs.",
        run.id,
    );
    Some(
        Told::new(Cause::WorkersFull, sentence)
            .see("runs that they carry at most", capacity)
            .see("runs that they carry", carried)
            .then(next::runs())
            .then(next::serve()),
    )
}
