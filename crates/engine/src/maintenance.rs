//! What happens by itself: timers, leases that ran out, workers that died, counters that must be right, rows that grow old.
//!
//! Every node does all of it, each piece in a transaction that looks again: two that find the same thing do it once.

mod crash_loop;
pub(crate) mod housekeeping;
mod lost_workers;
mod reconcile;
pub(crate) mod retention;
pub(crate) mod schedules;
mod timers;

use std::sync::Arc;
use std::time::Duration;

use provost_core::{RunId, WorkerId};
use provost_store::Tx;
use provost_store::table::scheduling::worker;
use provost_store::table::work::run;

pub(crate) use self::reconcile::reconcile;
pub(crate) use self::timers::fire_due;
use crate::engine::{Engine, Shared};
use crate::error::EngineError;
pub use crate::maintenance::crash_loop::BootGuard;
pub(crate) use crate::maintenance::crash_loop::guard_boot;
pub(crate) use crate::maintenance::lost_workers::{give_back, lose_run, sweep, take_over_the_dead};

/// How often leases are looked at.
const LEASES: Duration = Duration::from_secs(5);
/// How often counters are counted again.
const COUNTERS: Duration = Duration::from_secs(30);
/// How often old rows are looked for.
const OLD_ROWS: Duration = Duration::from_secs(6 * 3600);
/// Rows of one round.
const BATCH: u64 = 100;

/// Background work that a worker does by itself, on demand. See [`Engine::maintenance`](crate::Engine::maintenance).
#[derive(Clone, Copy)]
pub struct Maintenance<'a> {
    pub(crate) engine: &'a Engine,
}

impl Maintenance<'_> {
    /// Repairs what can be told from the rows themselves: counters, marks of readiness, timers. A worker does it by itself
    /// now and then.
    pub async fn reconcile(self) -> Result<(), EngineError> {
        reconcile(&self.engine.shared).await
    }
}

/// Keeps house until the worker ends.
pub(crate) async fn run(shared: Arc<Shared>) {
    let poll = shared.options.poll;
    let leases = LEASES.min(shared.options.heartbeat / 2);
    tokio::join!(
        timers::keep(&shared),
        every(poll, "looking for dead workers", || take_over_the_dead(&shared)),
        every(leases, "looking for lost leases", || sweep(&shared)),
        every(COUNTERS, "counting again", || reconcile(&shared)),
        every(OLD_ROWS, "removing what is old", || retention::keep_up(&shared)),
    );
}

/// Does something again and again.
async fn every<F>(period: Duration, what: &'static str, mut work: impl FnMut() -> F)
where
    F: Future<Output = Result<(), EngineError>>,
{
    loop {
        tokio::time::sleep(period).await;
        if let Err(error) = work().await {
            tracing::warn!(%error, "{what} has to wait");
        }
    }
}

/// Renews every lease of a worker that nobody asked to cancel, and tells which it holds and which are to stop.
pub(crate) fn renew(
    tx: &mut Tx<'_>,
    id: WorkerId,
    ttl: Duration,
) -> Result<Vec<(RunId, u64, bool)>, EngineError> {
    worker::seen(tx, id)?;
    let until = tx.now().after(ttl);
    run::renew(tx, id, until)?;
    Ok(run::held(tx, id)?)
}
