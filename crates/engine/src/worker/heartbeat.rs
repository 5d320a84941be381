//! How a worker says that it is there, and learns what it has lost and what is to stop.

use std::collections::BTreeMap;
use std::sync::Arc;

use provost_bus::{Lagged, Message, Topic, Wakeup};
use provost_core::{RunId, WorkerId};
use provost_failpoint::failpoint;
use provost_store::table::scheduling::worker;
use provost_store::table::work::run;
use tokio::time::Instant;

use super::lives_of;
use crate::attempt::{Live, Signal};
use crate::engine::Shared;
use crate::error::EngineError;
use crate::maintenance;
use crate::worker::session_filter::Focus;

/// A run that a worker holds: its id, its epoch, and whether somebody wants it to stop.
type Held = (RunId, u64, bool);

/// Renews all leases at once, before everything else that is written, and finds out what was lost or is to stop.
pub(super) async fn renew_leases(shared: Arc<Shared>, id: WorkerId) {
    let (heartbeat, ttl) = (shared.options.heartbeat, shared.options.lease);
    let mut renewed = Instant::now();
    let mut orphans = BTreeMap::new();
    loop {
        tokio::time::sleep(heartbeat).await;
        failpoint!("heartbeat.before");
        // Before the rows are read: what is claimed meanwhile is not among them.
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
                // By now others may have taken over, and this worker could not see it.
                if renewed.elapsed() >= ttl {
                    lives.iter().for_each(|live| live.tell(Signal::Abandon));
                }
            }
        }
    }
}

/// Looks at the rows of its runs more often than leases are renewed: hints may be lost, and other processes send none.
pub(super) async fn heed_rows(shared: Arc<Shared>, id: WorkerId) {
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

/// Writes down which sessions the worker serves whenever there are more of them, so that others know what it leaves alone.
pub(super) async fn tell_focus(shared: Arc<Shared>, id: WorkerId, focus: Focus) {
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

/// Tells attempts what their rows say.
fn heed(lives: &[Arc<Live>], held: &[Held]) {
    for live in lives {
        let row = held.iter().find(|row| row.0 == live.lease.run);
        match row {
            Some((_, epoch, stop)) if *epoch == live.lease.epoch => {
                if *stop {
                    live.tell(Signal::Stop);
                }
                live.hint_input();
            }
            // It is over, or somebody else has it.
            _ => live.tell(Signal::Abandon),
        }
    }
}

/// Runs that this worker holds and nobody works on: their attempt could not be settled. Seen twice, they are given away.
async fn give_up_orphans(
    shared: &Arc<Shared>,
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
            // It may have been claimed just now.
            continue;
        }
        if let Err(error) = maintenance::lose_run(shared, *run, *epoch).await {
            tracing::warn!(%run, %error, "a run that nobody works on could not be given away");
        }
    }
    orphans
}

/// Passes hints on to the attempts they are for.
pub(super) async fn heed_hints(shared: Arc<Shared>, id: WorkerId) {
    let mut wakeups = shared.store.bus().subscribe(Topic::Tasks);
    let live = |run: RunId| shared.live().get(&run).filter(|live| live.lease.worker == id).cloned();
    loop {
        match wakeups.recv().await {
            Ok(Message::Wakeup(Wakeup::Cancel(run))) => {
                if let Some(live) = live(run) {
                    live.tell(Signal::Stop);
                }
            }
            Ok(Message::Wakeup(Wakeup::Input(run))) => {
                if let Some(live) = live(run) {
                    live.hint_input();
                }
            }
            // What was missed is found in the rows.
            Ok(_) | Err(Lagged { .. }) => {}
        }
    }
}
