//! What the program around the engine gives it: channels, a publisher, places to work in.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use provost_store::row::{blob, outbox, webhook_post};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::delivery::{self, DeliveryAdapter};
use crate::engine::{Engine, Shared};
use crate::error::EngineError;
use crate::live::Tap;
use crate::outbox::{self as publishing, Publisher};
use crate::schedule;
use crate::workspace::Workspaces;

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

/// What was given so far.
#[derive(Default)]
pub(crate) struct Outside {
    given: Mutex<Given>,
    /// Where live events go.
    pub(crate) tap: Arc<Tap>,
    /// Told when a schedule was made or changed in this process.
    pub(crate) schedules_changed: Notify,
}

#[derive(Default)]
struct Given {
    channels: HashMap<String, Arc<dyn DeliveryAdapter>>,
    publisher: Option<Arc<dyn Publisher>>,
    workspaces: Option<Arc<dyn Workspaces>>,
}

impl Outside {
    pub(crate) fn channel(&self, name: &str) -> Option<Arc<dyn DeliveryAdapter>> {
        self.lock().channels.get(name).cloned()
    }

    pub(crate) fn channels(&self) -> Vec<String> {
        self.lock().channels.keys().cloned().collect()
    }

    pub(crate) fn publisher(&self) -> Option<Arc<dyn Publisher>> {
        self.lock().publisher.clone()
    }

    pub(crate) fn workspaces(&self) -> Option<Arc<dyn Workspaces>> {
        self.lock().workspaces.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Given> {
        self.given.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// Gives the engine a channel to send answers over, by the name that routings use.
    pub fn add_channel(&self, name: impl Into<String>, adapter: impl DeliveryAdapter) {
        self.shared.outside.lock().channels.insert(name.into(), Arc::new(adapter));
    }

    /// Gives the engine somebody who tells the outside what happened, in place of an earlier one.
    pub fn set_publisher(&self, publisher: impl Publisher) {
        self.shared.outside.lock().publisher = Some(Arc::new(publisher));
    }

    /// Gives the engine somebody who knows whether a run's workspace is still what it was, in place of an earlier one.
    pub fn set_workspaces(&self, workspaces: impl Workspaces) {
        self.shared.outside.lock().workspaces = Some(Arc::new(workspaces));
    }

    /// Removes up to a batch of what nothing needs any more: blobs that nothing refers to, notices that were published, posts
    /// that were settled.
    /// A worker does it by itself now and then. Returns how many rows went.
    pub async fn tidy(&self) -> Result<u64, EngineError> {
        tidy(&self.shared).await
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
        let posts = webhook_post::sweep(tx, now.before(UNTOLD), BATCH)?;
        Ok::<_, EngineError>(told + posts + blob::sweep(tx, now.before(ORPHAN), BATCH)?)
    });
    swept.await
}
