//! Heartbeat of a worker: renews its leases, and finds lost leases and requested stops.

use std::collections::BTreeMap;
use std::sync::Arc;

use provost_bus::{BusMessage, Lagged, Topic, Wakeup};
use provost_core::{RunId, WorkerId};
use provost_failpoint::failpoint;
use provost_store::table::scheduling::worker;
use provost_store::table::work::run;
use tokio::time::Instant;

use super::attempts_of;
use crate::attempt::{AttemptSignal, RunningAttempt};
use crate::engine::EngineInner;
use crate::error::EngineError;
use crate::maintenance;
use crate::worker::served_sessions::ServedSessions;

/// A leased run of the worker.
struct OwnedRun {
    run: RunId,
    epoch: u64,
    must_stop: bool,
}

/// Converts the rows of leased runs.
fn owned_runs(rows: Vec<(RunId, u64, bool)>) -> Vec<OwnedRun> {
    rows.into_iter().map(|(run, epoch, must_stop)| OwnedRun { run, epoch, must_stop }).collect()
}

/// Repeats after each heartbeat: renews all leases in one high-priority write, signals attempts that lost their lease
/// or must stop, and reclaims runs without an attempt. If renewals fail until the leases expire, abandons all
/// attempts.
pub(super) async fn renew_leases(shared: Arc<EngineInner>, id: WorkerId) {
    let (heartbeat, ttl) = (shared.options.heartbeat, shared.options.lease);
    let mut renewed = Instant::now();
    let mut orphans = BTreeMap::new();
    loop {
        tokio::time::sleep(heartbeat).await;
        failpoint!("heartbeat.before");
        // Before the rows are read: a run that is claimed meanwhile is not in the list.
        let attempts = attempts_of(&shared, id);
        let started = Instant::now();
        let renewal =
            shared.store.write_high_priority(move |tx| maintenance::renew(tx, id, ttl)).await;
        match renewal {
            Ok(rows) => {
                renewed = started;
                let owned = owned_runs(rows);
                signal_attempts(&attempts, &owned);
                orphans = reclaim_orphans(&shared, id, &owned, &orphans).await;
            }
            Err(error) => {
                tracing::warn!(%error, "leases could not be renewed");
                // The leases have expired: other workers may have claimed the runs, and this worker could not see it.
                if renewed.elapsed() >= ttl {
                    attempts.iter().for_each(|live| live.signal(AttemptSignal::Abandon));
                }
            }
        }
    }
}

/// Polls the rows of leased runs more often than leases are renewed: wakeups can be lost, and other processes send
/// none.
pub(super) async fn poll_rows(shared: Arc<EngineInner>, id: WorkerId) {
    loop {
        tokio::time::sleep(shared.options.poll).await;
        let attempts = attempts_of(&shared, id);
        if attempts.is_empty() {
            continue;
        }
        let read = shared.store.read(move |tx| Ok::<_, EngineError>(run::still_leased(tx, id)?));
        match read.await {
            Ok(rows) => signal_attempts(&attempts, &owned_runs(rows)),
            Err(error) => tracing::debug!(%error, "the rows of runs could not be read"),
        }
    }
}

/// Stores the served sessions when sessions were added, so that other processes know which sessions the worker does not
/// serve.
pub(super) async fn publish_served_sessions(
    shared: Arc<EngineInner>,
    id: WorkerId,
    sessions: ServedSessions,
) {
    let mut published = sessions.sessions();
    loop {
        tokio::time::sleep(shared.options.poll).await;
        let now = sessions.sessions();
        if now == published {
            continue;
        }
        let written = async {
            let text = serde_json::to_string(&now)?;
            let write = shared
                .store
                .write(move |tx| Ok::<_, EngineError>(worker::set_session_filter(tx, id, &text)?));
            write.await
        };
        match written.await {
            Ok(()) => published = now,
            Err(error) => {
                tracing::debug!(%error, "the served sessions of a worker could not be stored")
            }
        }
    }
}

/// Signals attempts whose rows request a stop, and abandons attempts that have lost their lease.
fn signal_attempts(attempts: &[Arc<RunningAttempt>], owned: &[OwnedRun]) {
    for live in attempts {
        let row = owned.iter().find(|owned| owned.run == live.lease.run);
        match row {
            Some(row) if row.epoch == live.lease.epoch => {
                if row.must_stop {
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
async fn reclaim_orphans(
    shared: &Arc<EngineInner>,
    id: WorkerId,
    owned: &[OwnedRun],
    before: &BTreeMap<RunId, u64>,
) -> BTreeMap<RunId, u64> {
    let mut orphans = BTreeMap::new();
    let attempts = attempts_of(shared, id);
    for OwnedRun { run, epoch, .. } in owned {
        if attempts.iter().any(|live| live.lease.run == *run) {
            continue;
        }
        orphans.insert(*run, *epoch);
        if before.get(run) != Some(epoch) {
            // The run may have been claimed after the attempts were listed.
            continue;
        }
        if let Err(error) = maintenance::handle_lost_run(shared, *run, *epoch).await {
            tracing::warn!(%run, %error, "a run without an attempt could not be requeued");
        }
    }
    orphans
}

/// Forwards cancellations and new inputs on the bus to the attempts of the worker. Never returns.
pub(super) async fn forward_wakeups(shared: Arc<EngineInner>, id: WorkerId) {
    let mut wakeups = shared.store.bus().subscribe(Topic::Tasks);
    let live =
        |run: RunId| shared.attempts().get(&run).filter(|live| live.lease.worker == id).cloned();
    loop {
        match wakeups.recv().await {
            Ok(BusMessage::Wakeup(Wakeup::Cancel(run))) => {
                if let Some(live) = live(run) {
                    live.signal(AttemptSignal::Stop);
                }
            }
            Ok(BusMessage::Wakeup(Wakeup::Input(run))) => {
                if let Some(live) = live(run) {
                    live.check_inputs_soon();
                }
            }
            // Polling finds missed wakeups.
            Ok(_) | Err(Lagged { .. }) => {}
        }
    }
}
