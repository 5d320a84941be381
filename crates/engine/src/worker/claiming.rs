//! Where a worker takes runs in.

use std::sync::Arc;

use provost_core::{RunId, Timestamp, WorkerId};
use provost_failpoint::failpoint;
use provost_store::{Hint, NodeLock};
use tokio::sync::{Notify, broadcast};
use tokio_util::sync::CancellationToken;

use super::lives_of;
use crate::attempt::{self, Live};
use crate::claim::{self, Claimed, Claimer, Claims};
use crate::engine::Shared;
use crate::error::EngineError;

/// Takes runs in as long as there is room.
pub(super) struct Desk {
    shared: Arc<Shared>,
    claimer: Claimer,
    lock: Arc<NodeLock>,
    /// An attempt has ended, so there is room for another.
    room: Arc<Notify>,
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
        };
        let (shared, lock) = (Arc::clone(shared), Arc::clone(lock));
        Self { shared, claimer, lock, room: Arc::default() }
    }

    /// Claims until it is told to stop.
    pub(super) async fn serve(self, stopping: CancellationToken) {
        let mut hints = self.shared.store.calls();
        let (mut hinted, mut more) = (true, true);
        while !stopping.is_cancelled() {
            let worker = self.claimer.worker;
            let under_way = lives_of(&self.shared, worker).len();
            let room = self.shared.options.capacity.saturating_sub(under_way);
            // Without a hint there is usually nothing, and finding that out needs no write.
            if room > 0 && (hinted || self.is_waiting().await) {
                more = match self.claim(room).await {
                    Ok(claims) => {
                        claims.taken.into_iter().for_each(|claimed| self.begin(claimed));
                        claims.more
                    }
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
                () = self.room.notified(), if more => true,
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

    async fn claim(&self, room: usize) -> Result<Claims, EngineError> {
        let (shared, claimer) = (Arc::clone(&self.shared), self.claimer.clone());
        let claimed = self.shared.store.write(move |tx| {
            // Looked up here, so that nothing can be claimed whose last attempt is still being unwound in this process.
            claim::claim(tx, &claimer, room, &under_way(&shared))
        });
        let claimed = claimed.await;
        failpoint!("claim.committed");
        claimed
    }

    fn begin(&self, claimed: Claimed) {
        let Claimed { lease, fresh } = claimed;
        let live = Arc::new(Live::new(lease, &self.shared.outside.tap));
        self.shared.live().insert(live.lease.run, Arc::clone(&live));
        let under_way = UnderWay {
            shared: Arc::clone(&self.shared),
            live,
            room: Arc::clone(&self.room),
            _lock: Arc::clone(&self.lock),
        };
        // A task of its own: it unwinds in order even if the worker is dropped.
        tokio::spawn(async move {
            attempt::carry(&under_way.shared, &under_way.live, fresh).await;
        });
    }
}

/// The runs that this process works on, or has not quite let go of.
fn under_way(shared: &Shared) -> Vec<RunId> {
    shared.live().keys().copied().collect()
}

/// An attempt's place among those of the process, until it is over, however it ends.
struct UnderWay {
    shared: Arc<Shared>,
    live: Arc<Live>,
    room: Arc<Notify>,
    /// The worker is not dead as long as something of it is under way.
    _lock: Arc<NodeLock>,
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.shared.live().remove(&self.live.lease.run);
        self.live.over.cancel();
        self.room.notify_one();
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
