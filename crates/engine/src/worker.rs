//! The part of an engine that works: claims runs, carries them, renews their leases, and keeps time.

pub(crate) mod claim;
mod claim_loop;
mod heartbeat;
pub(crate) mod lease;
pub(crate) mod session_filter;

use std::sync::Arc;
use std::time::Duration;

use provost_core::{Timestamp, WorkerId};
use provost_store::table::scheduling::process_start;
use provost_store::table::scheduling::worker::{self, WorkerRow};
use provost_store::{NodeLock, lock_dir};
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use self::claim_loop::ClaimLoop;
use crate::attempt::{Live, Signal};
use crate::engine::{Engine, Shared};
use crate::error::EngineError;
use crate::maintenance::{self, housekeeping};
use crate::options::EngineOptions;
use crate::worker::claim::BUILD;

/// A running worker. Dropping it abandons what it works on; [`stop`](Self::stop) lets that come to a good place first.
pub struct Worker {
    id: WorkerId,
    shared: Arc<Shared>,
    stopping: CancellationToken,
    claiming: JoinHandle<()>,
    tasks: JoinSet<()>,
    is_guarded: bool,
    /// The proof that this worker is alive. Attempts that are being unwound hold it, too.
    _lock: Arc<NodeLock>,
}

impl Engine {
    /// Starts to work: first takes over what dead workers left, then claims.
    pub async fn start(&self) -> Result<Worker, EngineError> {
        let shared = Arc::clone(&self.shared);
        let id: WorkerId = shared.env.id();
        let lock = Arc::new(NodeLock::acquire(&lock_dir(shared.store.path()), id)?);
        let guarded_until = maintenance::guard_boot(&shared).await?;
        register(&shared, id, &lock, guarded_until).await?;
        maintenance::take_over_the_dead(&shared).await?;
        // What became due while nobody was there, before anything is claimed: a deadline that has passed starts nothing.
        maintenance::fire_due(&shared).await?;
        let stopping = CancellationToken::new();
        let claim_loop = ClaimLoop::new(&shared, id, &lock, guarded_until);
        let claiming = tokio::spawn(claim_loop.run(stopping.clone()));
        let mut tasks = JoinSet::new();
        tasks.spawn(crate::worker::heartbeat::renew_leases(Arc::clone(&shared), id));
        tasks.spawn(crate::worker::heartbeat::heed_rows(Arc::clone(&shared), id));
        if let Some(focus) = shared.options.focus.clone() {
            tasks.spawn(crate::worker::heartbeat::tell_focus(Arc::clone(&shared), id, focus));
        }
        tasks.spawn(crate::worker::heartbeat::heed_hints(Arc::clone(&shared), id));
        tasks.spawn(maintenance::run(Arc::clone(&shared)));
        housekeeping::start(&shared, &mut tasks);
        let is_guarded = guarded_until.is_some();
        Ok(Worker { id, shared, stopping, claiming, tasks, is_guarded, _lock: lock })
    }
}

async fn register(
    shared: &Shared,
    id: WorkerId,
    lock: &NodeLock,
    idle_until: Option<Timestamp>,
) -> Result<(), EngineError> {
    let lock_path = lock.path().display().to_string();
    let EngineOptions { pool, capacity, focus, .. } = shared.options.clone();
    let focus = focus.map(|focus| serde_json::to_string(&focus.sessions())).transpose()?;
    let write = shared.store.write(move |tx| {
        let now = tx.now();
        let row = WorkerRow {
            id,
            host: String::new(),
            pid: u64::from(std::process::id()),
            build: BUILD,
            lock_path: lock_path.clone(),
            started: now,
            seen: now,
            stopped: None,
            pool: pool.clone(),
            capacity: capacity as u64,
            focus: focus.clone(),
            idle_until,
            draining: None,
        };
        row.insert(tx)?;
        process_start::BootRow { id: id.to_string(), started: now, clean_stop: None }.insert(tx)?;
        Ok::<_, EngineError>(())
    });
    write.await
}

impl Worker {
    /// Its id.
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// True if the service has crashed so often of late that this worker begins to claim only after a while.
    pub fn is_guarded(&self) -> bool {
        self.is_guarded
    }

    /// Claims nothing more and lets runs come to a boundary for up to `patience`, then gives back what is left: another
    /// worker goes on with it at once.
    pub async fn stop(mut self, patience: Duration) {
        self.stopping.cancel();
        // It may have claimed something that must not be forgotten.
        if let Err(error) = (&mut self.claiming).await {
            tracing::warn!(%error, "claiming had ended before");
        }
        self.tell(Signal::Drain);
        // Told to others while the runs come to their boundaries: nobody waits for the other.
        tokio::join!(self.say_draining(), async {
            drop(tokio::time::timeout(patience, self.idle()).await);
        });
        self.tell(Signal::Abandon);
        drop(tokio::time::timeout(self.shared.options.grace, self.idle()).await);
        self.tasks.shutdown().await;
        let id = self.id;
        let gone = self.shared.store.write(move |tx| {
            maintenance::give_back(tx, id)?;
            worker::stop(tx, id)?;
            process_start::stop(tx, &id.to_string())?;
            Ok::<_, EngineError>(())
        });
        if let Err(error) = gone.await {
            tracing::warn!(%error, "the end of a worker could not be stored");
        }
    }

    /// Works until `shutdown` comes, such as a signal to the process, then [stops](Self::stop).
    pub async fn run_until(self, shutdown: impl Future<Output = ()>, patience: Duration) {
        shutdown.await;
        self.stop(patience).await;
    }

    /// Lets everybody who looks at the database know that it begins nothing more.
    async fn say_draining(&self) {
        let id = self.id;
        let said = self.shared.store.write(move |tx| {
            worker::drain(tx, id)?;
            Ok::<_, EngineError>(())
        });
        if let Err(error) = said.await {
            tracing::debug!(%error, "that a worker stops could not be stored");
        }
    }

    /// Waits until none of its attempts is under way.
    async fn idle(&self) {
        for live in self.lives() {
            live.ended().await;
        }
    }

    fn tell(&self, signal: Signal) {
        for live in self.lives() {
            live.tell(signal);
        }
    }

    fn lives(&self) -> Vec<Arc<Live>> {
        lives_of(&self.shared, self.id)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.claiming.abort();
        self.tell(Signal::Abandon);
    }
}

/// The attempts of one worker; a process may have several.
fn lives_of(shared: &Shared, id: WorkerId) -> Vec<Arc<Live>> {
    shared.live().values().filter(|live| live.lease.worker == id).cloned().collect()
}
