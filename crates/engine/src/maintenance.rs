//! Background work: timers, expired leases, dead workers, counters, and retention.
//!
//! Every worker does all of it. Each transaction checks its condition again, so if two workers find the same work, it
//! is done once.

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
use crate::engine::{Engine, EngineInner};
use crate::error::EngineError;
pub use crate::maintenance::crash_loop::CrashLoopGuard;
pub(crate) use crate::maintenance::crash_loop::check_crash_loop;
pub(crate) use crate::maintenance::lost_workers::{
    handle_lost_run, reclaim_dead_workers, reclaim_expired_leases, requeue_all,
};

/// Interval of checks for expired leases.
const LEASES: Duration = Duration::from_secs(5);
/// Interval of recounts.
const COUNTERS: Duration = Duration::from_secs(30);
/// Interval of retention.
const OLD_ROWS: Duration = Duration::from_secs(6 * 3600);
/// Rows per query.
const BATCH: u64 = 100;

/// Maintenance on demand; a worker also does it by itself. See [`Engine::maintenance`](crate::Engine::maintenance).
#[derive(Clone, Copy)]
pub struct Maintenance<'a> {
    pub(crate) engine: &'a Engine,
}

impl Maintenance<'_> {
    /// Repairs values that other rows determine: counters, ready marks, timers. A worker does it periodically.
    pub async fn reconcile(self) -> Result<(), EngineError> {
        reconcile(&self.engine.inner).await
    }
}

/// Repeats all maintenance work until the worker ends.
pub(crate) async fn run(shared: Arc<EngineInner>) {
    let poll = shared.options.poll;
    let leases = LEASES.min(shared.options.heartbeat / 2);
    tokio::join!(
        timers::run_timers(&shared),
        every(poll, "reclaiming runs of dead workers", || reclaim_dead_workers(&shared)),
        every(leases, "reclaiming expired leases", || reclaim_expired_leases(&shared)),
        every(COUNTERS, "recounting active runs", || reconcile(&shared)),
        every(OLD_ROWS, "enforcing retention", || retention::run_retention(&shared)),
    );
}

/// Repeats `work` after each `period`. Logs errors.
async fn every<F>(period: Duration, what: &'static str, mut work: impl FnMut() -> F)
where
    F: Future<Output = Result<(), EngineError>>,
{
    loop {
        tokio::time::sleep(period).await;
        if let Err(error) = work().await {
            tracing::warn!(%error, "{what} failed and will be retried");
        }
    }
}

/// Records a heartbeat of a worker and extends its leases, except those of runs with a cancellation request. Returns
/// its leased runs with their epochs, and whether they must stop.
pub(crate) fn renew(
    tx: &mut Tx<'_>,
    id: WorkerId,
    ttl: Duration,
) -> Result<Vec<(RunId, u64, bool)>, EngineError> {
    worker::heartbeat(tx, id)?;
    let until = tx.now().after(ttl);
    run::renew(tx, id, until)?;
    Ok(run::still_leased(tx, id)?)
}
