//! Heartbeat of a worker: renews its leases, and finds lost leases and requested stops.

use std::collections::BTreeMap;
use std::sync::Arc;

use provost_bus::{Lagged, Message, Topic, Wakeup};
use provost_core::{RunId, WorkerId};
use provost_failpoint::failpoint;
use provost_store::table::scheduling::worker;
use provost_store::table::work::run;
use tokio::time::Instant;

use super::lives_of;
use crate::attempt::{AttemptSignal, RunningAttempt};
use crate::engine::EngineInner;
use crate::error::EngineError;
use crate::maintenance;
use crate::worker::session_filter::Focus;

/// A leased run: its id, its epoch, and whether a stop is requested.
type Held = (RunId, u64, bool);

/// Renews all leases in one high-priority write, and signals attempts that lost their lease or must stop.
pub(super) async fn renew_leases(shared: Arc<EngineInner>, id: WorkerId) {
    let (heartbeat, ttl) = (shared.options.heartbeat, shared.options.lease);
    let mut renewed = Instant::now();
    let mut orphans = BTreeMap::new();
    loop {
        tokio::time::sleep(heartbeat).await;
        failpoint!("heartbeat.before");
        // Before the rows are read: a run that is claimed meanwhile is not in the list.
        let lives = lives_of(&shared, id);
        let started = Instant::now();
        let held = shared.store.write_urgent(move |tx| maintenance::renew(tx, id, ttl)).await;
        match held {
            Ok(held) => {
                renewed = started;
                heed(&lives, &held);
                orphans = give_up_orphans(&shared, id, &held, &orphans).await;
            }
            Err(error) => {
                tracing::warn!(%error, "leases could not be renewed");
                // The leases have expired: other workers may have claimed the runs, and this worker could not see it.
                if renewed.elapsed() >= ttl {
                    lives.iter().for_each(|live| live.signal(AttemptSignal::Abandon));
                }
            }
        }
    }
}

/// Polls the rows of leased runs more often than leases are renewed: wakeups can be lost, and other processes send
/// none.
pub(super) async fn heed_rows(shared: Arc<EngineInner>, id: WorkerId) {
    loop {
        tokio::time::sleep(shared.options.poll).await;
        let lives = lives_of(&shared, id);
        if lives.is_empty() {
            continue;
        }
        let read = shared.store.read(move |tx| Ok::<_, EngineError>(run::held(tx, id)?));
        match read.await {
            Ok(held) => heed(&lives, &held),
            Err(error) => tracing::debug!(%error, "the rows of runs could not be read"),
        }
    }
}

/// Stores the session filter when sessions were added, so that other processes know which sessions the worker does
/// not serve.
pub(super) async fn tell_focus(shared: Arc<EngineInner>, id: WorkerId, focus: Focus) {
    let mut told = focus.sessions();
    loop {
        tokio::time::sleep(shared.options.poll).await;
        let now = focus.sessions();
        if now == told {
            continue;
        }
        let written = async {
            let text = serde_json::to_string(&now)?;
            let write =
                shared.store.write(move |tx| Ok::<_, EngineError>(worker::focus(tx, id, &text)?));
            write.await
        };
        match written.await {
            Ok(()) => told = now,
            Err(error) => tracing::debug!(%error, "what a worker serves could not be stored"),
        }
    }
}

/// Signals attempts according to their rows.
fn heed(lives: &[Arc<RunningAttempt>], held: &[Held]) {
    for live in lives {
        let row = held.iter().find(|row| row.0 == live.lease.run);
        match row {
            Some((_, epoch, stop)) if *epoch == live.lease.epoch => {
                if *stop {
                    live.signal(AttemptSignal::Stop);
                }
                live.check_inputs_soon();
            }
            // The run has ended or another attempt has it.
            _ => live.signal(AttemptSignal::Abandon),
        }
    }
}

/// Requeues runs that this worker leases without an attempt, because the settlement failed. An orphan must be seen
/// twice.
async fn give_up_orphans(
    shared: &Arc<EngineInner>,
    id: WorkerId,
    held: &[Held],
    before: &BTreeMap<RunId, u64>,
) -> BTreeMap<RunId, u64> {
    let mut orphans = BTreeMap::new();
    let lives = lives_of(shared, id);
    for (run, epoch, _) in held {
        if lives.iter().any(|live| live.lease.run == *run) {
            continue;
        }
        orphans.insert(*run, *epoch);
        if before.get(run) != Some(epoch) {
            // The run may have been claimed after the attempts were listed.
            continue;
        }
        if let Err(error) = maintenance::lose_run(shared, *run, *epoch).await {
            tracing::warn!(%run, %error, "a run that nobody works on could not be given away");
        }
    }
    orphans
}

/// Forwards wakeups to the attempts of the worker.
pub(super) async fn heed_hints(shared: Arc<EngineInner>, id: WorkerId) {
    let mut wakeups = shared.store.bus().subscribe(Topic::Tasks);
    let live =
        |run: RunId| shared.attempts().get(&run).filter(|live| live.lease.worker == id).cloned();
    loop {
        match wakeups.recv().await {
            Ok(Message::Wakeup(Wakeup::Cancel(run))) => {
                if let Some(live) = live(run) {
                    live.signal(AttemptSignal::Stop);
                }
            }
            Ok(Message::Wakeup(Wakeup::Input(run))) => {
                if let Some(live) = live(run) {
                    live.check_inputs_soon();
                }
            }
            // Polling finds missed wakeups.
            Ok(_) | Err(Lagged { .. }) => {}
        }
    }
}
