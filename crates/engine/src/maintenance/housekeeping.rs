//! Housekeeping of a worker: everything it does besides runs and leases.

use std::sync::Arc;
use std::time::Duration;

use provost_store::table::outbound::{outbox, webhook_delivery};
use provost_store::table::state::blob;
use tokio::task::JoinSet;

use crate::engine::Shared;
use crate::error::EngineError;
use crate::maintenance::Maintenance;
use crate::outbound::delivery;
use crate::outbound::outbox as publishing;
use crate::submit::schedule;

/// How often what nobody needs any more is looked for.
const TIDY: Duration = Duration::from_secs(3600);
/// Rows of one transaction.
const BATCH: u64 = 200;
/// How long what was told is kept, so that a receiver that asks can be answered.
const TOLD: Duration = Duration::from_secs(24 * 3600);
/// How long what nobody publishes is kept, and what was posted to webhooks.
const UNTOLD: Duration = Duration::from_secs(7 * 24 * 3600);
/// How old a blob must be before it is removed because nothing refers to it.
const ORPHAN: Duration = Duration::from_secs(24 * 3600);

impl Maintenance<'_> {
    /// Removes up to a batch of what nothing needs any more: blobs that nothing refers to, notices that were published, posts
    /// that were settled.
    /// A worker does it by itself now and then. Returns how many rows went.
    pub async fn tidy(self) -> Result<u64, EngineError> {
        tidy(&self.engine.shared).await
    }
}

/// Starts what a worker does besides runs and leases.
pub(crate) fn start(shared: &Arc<Shared>, tasks: &mut JoinSet<()>) {
    tasks.spawn(delivery::run(Arc::clone(shared)));
    tasks.spawn(publishing::run(Arc::clone(shared)));
    tasks.spawn(schedule::run(Arc::clone(shared)));
    tasks.spawn(keep_tidy(Arc::clone(shared)));
}

async fn keep_tidy(shared: Arc<Shared>) {
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

async fn tidy(shared: &Shared) -> Result<u64, EngineError> {
    let swept = shared.store.write(|tx| {
        let now = tx.now();
        let told = outbox::sweep(tx, now.before(TOLD), now.before(UNTOLD), BATCH)?;
        let posts = webhook_delivery::sweep(tx, now.before(UNTOLD), BATCH)?;
        Ok::<_, EngineError>(told + posts + blob::sweep(tx, now.before(ORPHAN), BATCH)?)
    });
    swept.await
}
