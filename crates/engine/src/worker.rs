//! Worker: claims runs, executes their attempts, renews their leases, and runs maintenance.

pub(crate) mod claim;
mod claim_loop;
mod heartbeat;
pub(crate) mod lease;
pub(crate) mod served_sessions;

use std::sync::Arc;
use std::time::Duration;

use provost_core::{Timestamp, WorkerId};
use provost_store::table::scheduling::process_start;
use provost_store::table::scheduling::worker::{self, WorkerRow};
use provost_store::{WorkerLock, lock_dir};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use self::claim_loop::ClaimLoop;
use crate::attempt::{AttemptSignal, RunningAttempt};
use crate::engine::{Engine, EngineInner};
use crate::error::EngineError;
use crate::maintenance::{self, housekeeping};
use crate::options::EngineOptions;
use crate::worker::claim::JOURNAL_FORMAT_VERSION;

/// A running worker. Dropping it abandons its attempts; [`stop`](Self::stop) first lets them reach a step boundary.
pub struct Worker {
    id: WorkerId,
    shared: Arc<EngineInner>,
    stopping: CancellationToken,
    claiming: JoinHandle<()>,
    tasks: JoinSet<()>,
    is_guarded: bool,
    /// File lock that proves that this worker is alive. Attempts that are still unwinding hold it too.
    _lock: Arc<WorkerLock>,
}

impl Engine {
    /// Starts a worker. It first takes over the runs of dead workers, then claims runs.
    pub async fn start(&self) -> Result<Worker, EngineError> {
        let shared = Arc::clone(&self.inner);
        let id: WorkerId = shared.env.id();
        let lock = Arc::new(WorkerLock::acquire(&lock_dir(shared.store.path()), id)?);
        let guarded_until = maintenance::check_crash_loop(&shared).await?;
        register(&shared, id, &lock, guarded_until).await?;
        maintenance::reclaim_dead_workers(&shared).await?;
        // Fires due timers before the first claim, so that no run starts whose deadline has passed.
        maintenance::fire_due(&shared).await?;
        let stopping = CancellationToken::new();
        let claim_loop = ClaimLoop::new(&shared, id, &lock, guarded_until);
        let claiming = tokio::spawn(claim_loop.run(stopping.clone()));
        let mut tasks = JoinSet::new();
        tasks.spawn(crate::worker::heartbeat::renew_leases(Arc::clone(&shared), id));
        tasks.spawn(crate::worker::heartbeat::poll_rows(Arc::clone(&shared), id));
        if let Some(sessions) = shared.options.served_sessions.clone() {
            tasks.spawn(crate::worker::heartbeat::publish_served_sessions(
                Arc::clone(&shared),
                id,
                sessions,
            ));
        }
        tasks.spawn(crate::worker::heartbeat::forward_wakeups(Arc::clone(&shared), id));
        tasks.spawn(maintenance::run(Arc::clone(&shared)));
        housekeeping::start(&shared, &mut tasks);
        let is_guarded = guarded_until.is_some();
        Ok(Worker { id, shared, stopping, claiming, tasks, is_guarded, _lock: lock })
    }
}

/// Inserts the rows of the worker and of the process start.
async fn register(
    shared: &EngineInner,
    id: WorkerId,
    lock: &WorkerLock,
    idle_until: Option<Timestamp>,
) -> Result<(), EngineError> {
    let lock_path = lock.path().display().to_string();
    let EngineOptions { pool, capacity, served_sessions: sessions, .. } = shared.options.clone();
    let sessions =
        sessions.map(|sessions| serde_json::to_string(&sessions.sessions())).transpose()?;
    let write = shared.store.write(move |tx| {
        let now = tx.now();
        let row = WorkerRow {
            id,
            host: String::new(),
            pid: u64::from(std::process::id()),
            build: JOURNAL_FORMAT_VERSION,
            lock_path: lock_path.clone(),
            started: now,
            last_heartbeat: now,
            stopped: None,
            pool: pool.clone(),
            capacity: capacity as u64,
            session_filter: sessions.clone(),
            claims_paused_until: idle_until,
            draining: None,
        };
        row.insert(tx)?;
        process_start::ProcessStartRow { id: id.to_string(), started: now, clean_stop: None }
            .insert(tx)?;
        Ok::<_, EngineError>(())
    });
    write.await
}

impl Worker {
    /// Returns the id of the worker.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// Returns true if the service is in a crash loop, so that this worker waits before it claims runs.
    pub fn is_guarded(&self) -> bool {
        self.is_guarded
    }

    /// Stops the worker. It claims no more runs, waits up to `drain_timeout` for its attempts to reach a step boundary,
    /// and requeues the rest. Another worker can continue those at once.
    pub async fn stop(mut self, drain_timeout: Duration) {
        self.stopping.cancel();
        // The loop may have committed a claim; its attempt must be started.
        if let Err(error) = (&mut self.claiming).await {
            tracing::warn!(%error, "the claim loop had already ended");
        }
        self.signal_all(AttemptSignal::Drain);
        // Stored concurrently with the drain, because neither depends on the other.
        tokio::join!(self.store_draining(), async {
            drop(tokio::time::timeout(drain_timeout, self.idle()).await);
        });
        self.signal_all(AttemptSignal::Abandon);
        drop(tokio::time::timeout(self.shared.options.grace, self.idle()).await);
        self.tasks.shutdown().await;
        let id = self.id;
        let stopped = self.shared.store.write(move |tx| {
            maintenance::requeue_all(tx, id)?;
            worker::stop(tx, id)?;
            process_start::stop(tx, &id.to_string())?;
            Ok::<_, EngineError>(())
        });
        if let Err(error) = stopped.await {
            tracing::warn!(%error, "the end of a worker could not be stored");
        }
    }

    /// Waits for `shutdown`, such as a signal to the process, then [stops](Self::stop).
    pub async fn run_until(self, shutdown: impl Future<Output = ()>, drain_timeout: Duration) {
        shutdown.await;
        self.stop(drain_timeout).await;
    }

    /// Stores that the worker is draining, so that other processes can see it.
    async fn store_draining(&self) {
        let id = self.id;
        let stored = self.shared.store.write(move |tx| {
            worker::drain(tx, id)?;
            Ok::<_, EngineError>(())
        });
        if let Err(error) = stored.await {
            tracing::debug!(%error, "the draining state of a worker could not be stored");
        }
    }

    /// Waits until all attempts of the worker have ended.
    async fn idle(&self) {
        for live in self.attempts() {
            live.wait_until_finished().await;
        }
    }

    /// Sends a command to all attempts of the worker.
    fn signal_all(&self, signal: AttemptSignal) {
        for live in self.attempts() {
            live.signal(signal);
        }
    }

    /// Returns the attempts of this worker.
    fn attempts(&self) -> Vec<Arc<RunningAttempt>> {
        attempts_of(&self.shared, self.id)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.claiming.abort();
        self.signal_all(AttemptSignal::Abandon);
    }
}

/// Returns the attempts of one worker. A process can have several workers.
fn attempts_of(shared: &EngineInner, id: WorkerId) -> Vec<Arc<RunningAttempt>> {
    shared.attempts().values().filter(|live| live.lease.worker == id).cloned().collect()
}
