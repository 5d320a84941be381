//! Where a worker takes runs in.

use std::sync::Arc;

use provost_core::{RunId, Timestamp, WorkerId};
use provost_failpoint::failpoint;
use provost_store::{Hint, NodeLock};
use tokio::runtime::Handle;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, broadcast};
use tokio_util::sync::CancellationToken;

use crate::accept::Intake;
use crate::attempt::{self, Live};
use crate::claim::{self, Claimed, Claimer, Claims};
use crate::engine::Shared;
use crate::error::EngineError;
use crate::heir::Place;

/// The most runs that one worker carries at once, whatever it is told.
const PLACES_MAX: usize = 1 << 20;

/// Takes runs in as long as there is room.
pub(super) struct Desk {
    shared: Arc<Shared>,
    claimer: Claimer,
    /// A place for each attempt that may be under way at once.
    places: Arc<Semaphore>,
    bench: Arc<Bench>,
}

/// What an attempt needs of its worker.
struct Bench {
    shared: Arc<Shared>,
    _lock: Arc<NodeLock>,
    /// An attempt has ended, so there is room for another.
    room: Notify,
    runtime: Handle,
}

impl Desk {
    pub(super) fn new(
        shared: &Arc<Shared>,
        worker: WorkerId,
        lock: &Arc<NodeLock>,
        not_before: Option<Timestamp>,
    ) -> Self {
        let claimer = Claimer {
            worker,
            pool: shared.options.pool.clone(),
            focus: shared.options.focus.clone(),
            ttl: shared.options.lease,
            env: shared.env.clone(),
            not_before,
            above: Arc::default(),
        };
        let (shared, lock) = (Arc::clone(shared), Arc::clone(lock));
        let places = shared.options.capacity.min(PLACES_MAX);
        let places = Arc::new(Semaphore::new(places));
        let (room, runtime) = (Notify::new(), Handle::current());
        let bench = Arc::new(Bench { shared: Arc::clone(&shared), _lock: lock, room, runtime });
        Self { shared, claimer, places, bench }
    }

    /// Lets runs that are accepted in this process begin at once.
    pub(super) fn open(&self) -> Open {
        let bench = Arc::clone(&self.bench);
        let begin = move |claimed, place| bench.begin(claimed, place);
        let intake = Intake::new(self.claimer.clone(), Arc::clone(&self.places), begin);
        let intake = Arc::new(intake);
        self.shared.intakes().push(Arc::clone(&intake));
        Open { shared: Arc::clone(&self.shared), intake }
    }

    /// Claims until it is told to stop.
    pub(super) async fn serve(self, stopping: CancellationToken) {
        let mut hints = self.shared.store.calls();
        let (mut hinted, mut more) = (true, true);
        while !stopping.is_cancelled() {
            let room = self.places.available_permits();
            // Without a hint there is usually nothing, and finding that out needs no write.
            if room > 0 && (hinted || self.is_waiting().await) {
                more = match self.claim().await {
                    Ok(claims) => claims.more,
                    Err(error) => {
                        tracing::warn!(%error, "nothing could be claimed");
                        true
                    }
                };
            } else if room == 0 {
                more = true;
            }
            hinted = tokio::select! {
                // In this order, so that a simulation can be repeated.
                biased;
                () = stopping.cancelled() => return,
                () = ready(&mut hints) => true,
                () = self.bench.room.notified(), if more => true,
                () = tokio::time::sleep(self.shared.options.poll) => false,
            };
        }
    }

    async fn is_waiting(&self) -> bool {
        let (claimer, except) = (self.claimer.clone(), under_way(&self.shared));
        let looked = self.shared.store.read(move |tx| claim::is_waiting(tx, &claimer, &except));
        // If it cannot be read, the claim says why.
        looked.await.unwrap_or(true)
    }

    /// Claims for all places that are free, and begins what it got.
    async fn claim(&self) -> Result<Claims, EngineError> {
        let (shared, claimer) = (Arc::clone(&self.shared), self.claimer.clone());
        let all = Arc::clone(&self.places);
        let claimed = self.shared.store.write(move |tx| {
            // Taken here, where runs that are accepted take theirs, so that a look at the queue denies nobody a place; those
            // that stay free are given back at once.
            let room = all.available_permits();
            let count = u32::try_from(room).unwrap_or(u32::MAX);
            let Ok(mut places) = Arc::clone(&all).try_acquire_many_owned(count) else {
                return Ok((Claims { more: true, ..Claims::default() }, None));
            };
            // Looked up here, so that nothing can be claimed whose last attempt is still being unwound in this process.
            let claims = claim::claim(tx, &claimer, room, &under_way(&shared))?;
            let places = places.split(claims.taken.len());
            Ok::<_, EngineError>((claims, places))
        });
        let claimed = claimed.await;
        failpoint!("claim.committed");
        let (mut claims, mut places) = claimed?;
        for claimed in claims.taken.drain(..) {
            if let Some(place) = places.as_mut().and_then(|places| places.split(1)) {
                self.bench.begin(claimed, place);
            }
        }
        Ok(claims)
    }
}

impl Bench {
    fn begin(self: &Arc<Self>, claimed: Claimed, place: OwnedSemaphorePermit) {
        let Claimed { lease, fresh } = claimed;
        let live = Arc::new(Live::new(lease, &self.shared.tap, Place::new(place)));
        self.shared.live().insert(live.lease.run, Arc::clone(&live));
        let under_way = UnderWay { bench: Arc::clone(self), live };
        // A task of its own: it unwinds in order even if the worker is dropped.
        self.runtime.spawn(async move {
            attempt::carry(&under_way.bench.shared, &under_way.live, fresh).await;
        });
    }
}

/// As long as it lives, runs that are accepted in this process begin at once.
pub(super) struct Open {
    shared: Arc<Shared>,
    intake: Arc<Intake>,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.intake.close();
        self.shared.intakes().retain(|intake| !Arc::ptr_eq(intake, &self.intake));
    }
}

/// The runs that this process works on, or has not quite let go of.
fn under_way(shared: &Shared) -> Vec<RunId> {
    shared.live().keys().copied().collect()
}

/// An attempt's place among those of the process, until it is over, however it ends.
struct UnderWay {
    /// With the lock of the worker: that is not dead as long as something of it is under way.
    bench: Arc<Bench>,
    live: Arc<Live>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.bench.shared.live().remove(&self.live.lease.run);
        self.live.over.cancel();
        // First, so that whoever is woken finds it.
        drop(self.live.place.take());
        self.bench.room.notify_one();
    }
}

/// Waits for the news that something can be claimed.
async fn ready(hints: &mut broadcast::Receiver<Hint>) {
    loop {
        match hints.recv().await {
            Ok(Hint::RunReady) | Err(broadcast::error::RecvError::Lagged(_)) => return,
            Ok(_) => {}
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}
