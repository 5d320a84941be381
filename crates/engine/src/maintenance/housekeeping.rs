//! Background tasks of a worker besides runs and leases: deliveries, the outbox, schedules, and garbage collection.

use std::sync::Arc;
use std::time::Duration;

use provost_store::table::outbound::{outbox, webhook_delivery};
use provost_store::table::state::blob;
use tokio::task::JoinSet;

use crate::engine::EngineInner;
use crate::error::EngineError;
use crate::maintenance::Maintenance;
use crate::outbound::delivery;
use crate::outbound::outbox as publishing;
use crate::submit::schedule;

/// Interval of garbage collection.
const GARBAGE_INTERVAL: Duration = Duration::from_secs(3600);
/// Rows per transaction.
const BATCH: u64 = 200;
/// Retention of published outbox messages.
const PUBLISHED_RETENTION: Duration = Duration::from_secs(24 * 3600);
/// Retention of unpublished outbox messages and of webhook deliveries.
const UNPUBLISHED_RETENTION: Duration = Duration::from_secs(7 * 24 * 3600);
/// Minimum age of an unreferenced blob before its removal.
const ORPHAN_BLOB_AGE: Duration = Duration::from_secs(24 * 3600);

impl Maintenance<'_> {
    /// Removes up to one batch of garbage: unreferenced blobs, old outbox messages and settled webhook deliveries.
    /// Returns the number of removed rows. A worker does it periodically.
    pub async fn collect_garbage(self) -> Result<u64, EngineError> {
        collect_garbage(&self.engine.inner).await
    }
}

/// Spawns the loops that send deliveries, publish notices, fire schedules and remove obsolete rows.
pub(crate) fn start(shared: &Arc<EngineInner>, tasks: &mut JoinSet<()>) {
    tasks.spawn(delivery::run(Arc::clone(shared)));
    tasks.spawn(publishing::run(Arc::clone(shared)));
    tasks.spawn(schedule::run(Arc::clone(shared)));
    tasks.spawn(garbage_loop(Arc::clone(shared)));
}

/// Removes obsolete notices, webhook deliveries and blobs after every interval, batch by batch until none is left.
async fn garbage_loop(shared: Arc<EngineInner>) {
    loop {
        tokio::time::sleep(GARBAGE_INTERVAL).await;
        loop {
            match collect_garbage(&shared).await {
                Ok(0) => break,
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => {
                    tracing::warn!(%error, "garbage collection failed and will be retried");
                    break;
                }
            }
        }
    }
}

/// Removes a batch each of obsolete notices, webhook deliveries and unreferenced blobs. Returns the number of rows.
async fn collect_garbage(shared: &EngineInner) -> Result<u64, EngineError> {
    let removed = shared.store.write(|tx| {
        let now = tx.now();
        let messages = outbox::sweep(
            tx,
            now.before(PUBLISHED_RETENTION),
            now.before(UNPUBLISHED_RETENTION),
            BATCH,
        )?;
        let deliveries = webhook_delivery::sweep(tx, now.before(UNPUBLISHED_RETENTION), BATCH)?;
        Ok::<_, EngineError>(
            messages + deliveries + blob::sweep(tx, now.before(ORPHAN_BLOB_AGE), BATCH)?,
        )
    });
    removed.await
}
