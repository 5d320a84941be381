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
const TIDY: Duration = Duration::from_secs(3600);
/// Rows per transaction.
const BATCH: u64 = 200;
/// Retention of published outbox messages, for receivers that ask again.
const TOLD: Duration = Duration::from_secs(24 * 3600);
/// Retention of unpublished outbox messages and of webhook deliveries.
const UNTOLD: Duration = Duration::from_secs(7 * 24 * 3600);
/// Minimum age of an unreferenced blob before its removal.
const ORPHAN: Duration = Duration::from_secs(24 * 3600);

impl Maintenance<'_> {
    /// Removes up to one batch of garbage: unreferenced blobs, old outbox messages and settled webhook deliveries.
    /// Returns the number of removed rows. A worker does it periodically.
    pub async fn tidy(self) -> Result<u64, EngineError> {
        tidy(&self.engine.inner).await
    }
}

/// Starts the background tasks.
pub(crate) fn start(shared: &Arc<EngineInner>, tasks: &mut JoinSet<()>) {
    tasks.spawn(delivery::run(Arc::clone(shared)));
    tasks.spawn(publishing::run(Arc::clone(shared)));
    tasks.spawn(schedule::run(Arc::clone(shared)));
    tasks.spawn(keep_tidy(Arc::clone(shared)));
}

async fn keep_tidy(shared: Arc<EngineInner>) {
    loop {
        tokio::time::sleep(TIDY).await;
        loop {
            match tidy(&shared).await {
                Ok(0) => break,
                Ok(_) => tokio::task::yield_now().await,
                Err(error) => {
                    tracing::warn!(%error, "tidying up has to wait");
                    break;
                }
            }
        }
    }
}

async fn tidy(shared: &EngineInner) -> Result<u64, EngineError> {
    let swept = shared.store.write(|tx| {
        let now = tx.now();
        let told = outbox::sweep(tx, now.before(TOLD), now.before(UNTOLD), BATCH)?;
        let posts = webhook_delivery::sweep(tx, now.before(UNTOLD), BATCH)?;
        Ok::<_, EngineError>(told + posts + blob::sweep(tx, now.before(ORPHAN), BATCH)?)
    });
    swept.await
}
