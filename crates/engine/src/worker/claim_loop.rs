//! Claim loop: claims runs and starts their attempts.

use std::sync::Arc;

use provost_bus::{Topic, Wakeup};
use provost_core::{RunId, Timestamp, WorkerId};
use provost_failpoint::failpoint;
use provost_store::WorkerLock;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use crate::attempt::{self, RunningAttempt};
use crate::engine::EngineInner;
use crate::error::EngineError;
use crate::worker::claim::{self, ClaimContext};
use crate::worker::lease::Lease;

/// Upper bound for the capacity of a worker, regardless of its options.
const CAPACITY_MAX: usize = 1 << 20;

/// Claims runs while the worker has free permits.
pub(super) struct ClaimLoop {
    context: ClaimContext,
    /// One permit for each attempt that may run at once. Only this loop acquires them.
    permits: Arc<Semaphore>,
    host: Arc<AttemptHost>,
}

/// State shared by the attempts of a worker.
struct AttemptHost {
    shared: Arc<EngineInner>,
    _lock: Arc<WorkerLock>,
    /// Notified when an attempt has ended and its permit is free.
    permit_freed: Notify,
}

impl ClaimLoop {
    /// Creates the loop with the capacity of the engine's options.
    pub(super) fn new(
        shared: &Arc<EngineInner>,
        worker: WorkerId,
        lock: &Arc<WorkerLock>,
        not_before: Option<Timestamp>,
    ) -> Self {
        let context = ClaimContext {
            worker,
            pool: shared.options.pool.clone(),
            sessions: shared.options.served_sessions.clone(),
            ttl: shared.options.lease,
            not_before,
        };
        let permits = Arc::new(Semaphore::new(shared.options.capacity.min(CAPACITY_MAX)));
        let (shared, lock) = (Arc::clone(shared), Arc::clone(lock));
        let host = AttemptHost { shared, _lock: lock, permit_freed: Notify::new() };
        Self { context, permits, host: Arc::new(host) }
    }

    /// Claims runs until `stopping` is cancelled.
    pub(super) async fn run(self, stopping: CancellationToken) {
        let shared = &self.host.shared;
        let mut wakeups = shared.store.bus().subscribe(Topic::Tasks);
        while !stopping.is_cancelled() {
            // The read needs no write transaction, and usually no run is ready.
            if self.permits.available_permits() > 0
                && self.has_claimable_run().await
                && let Err(error) = self.claim().await
            {
                tracing::warn!(%error, "nothing could be claimed");
            }
            tokio::select! {
                // In a fixed order, so that a simulation is repeatable.
                biased;
                () = stopping.cancelled() => return,
                () = wakeups.woken(|wakeup| wakeup == Wakeup::RunReady) => {}
                () = self.host.permit_freed.notified() => {}
                () = tokio::time::sleep(shared.options.poll) => {}
            }
        }
    }

    /// Returns true if a run can be claimed, or if that cannot be determined.
    async fn has_claimable_run(&self) -> bool {
        let (context, except) = (self.context.clone(), live_runs(&self.host.shared));
        let waiting =
            self.host.shared.store.read(move |tx| claim::has_claimable_run(tx, &context, &except));
        // If the read fails, the claim reports the error.
        waiting.await.unwrap_or(true)
    }

    /// Claims one run for each free permit, and starts their attempts.
    async fn claim(&self) -> Result<(), EngineError> {
        let free = self.permits.available_permits();
        let count = u32::try_from(free).unwrap_or(u32::MAX);
        let Ok(mut permits) = Arc::clone(&self.permits).try_acquire_many_owned(count) else {
            return Ok(());
        };
        // A run is not claimed again while its last attempt still unwinds in this process.
        let (context, except) = (self.context.clone(), live_runs(&self.host.shared));
        let store = &self.host.shared.store;
        let claimed = store.write(move |tx| claim::claim(tx, &context, free, &except)).await;
        failpoint!("claim.committed");
        for lease in claimed? {
            self.host.shared.live_events.metrics.claimed(lease.waited);
            if let Some(permit) = permits.split(1) {
                self.host.start(lease, permit);
            }
        }
        Ok(())
    }
}

impl AttemptHost {
    /// Registers the attempt of a lease and executes it in a task of its own.
    fn start(self: &Arc<Self>, lease: Lease, permit: OwnedSemaphorePermit) {
        let live = Arc::new(RunningAttempt::new(lease, &self.shared.live_events));
        self.shared.attempts().insert(live.lease.run, Arc::clone(&live));
        let guard = AttemptGuard { host: Arc::clone(self), live, permit: Some(permit) };
        // A task of its own: it unwinds in order even if the worker is dropped.
        tokio::spawn(async move {
            attempt::run_attempt(&guard.host.shared, &guard.live).await;
        });
    }
}

/// Returns the runs that this process executes or whose attempts still unwind.
fn live_runs(shared: &EngineInner) -> Vec<RunId> {
    shared.attempts().keys().copied().collect()
}

/// Guard of a running attempt: frees its permit when it ends in any way. It holds the lock of its worker, so a worker
/// with a running attempt does not count as dead.
struct AttemptGuard {
    host: Arc<AttemptHost>,
    live: Arc<RunningAttempt>,
    permit: Option<OwnedSemaphorePermit>,
}

impl Drop for AttemptGuard {
    fn drop(&mut self) {
        self.host.shared.attempts().remove(&self.live.lease.run);
        self.live.finished.cancel();
        // The permit is free before the loop is woken.
        drop(self.permit.take());
        self.host.permit_freed.notify_one();
    }
}
