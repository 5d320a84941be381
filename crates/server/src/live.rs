//! Fan-out of new events to open streams.
//!
//! One task reads the log as it grows, encodes each event once and delivers it to the subscribers of its run, task, session and
//! namespace. It never waits for a subscriber: each has a short queue, and a subscriber whose queue overflows reads the missing
//! events from the database. Deltas pass through the same task, so a delta never overtakes a durable event that precedes it, see
//! [`progress`]. A slow subscriber loses only deltas and receives their number.
//!
//! Invariant: the database is authoritative. A defect in this module can delay a stream but cannot lose an event.

mod delta;
mod dispatcher;
mod progress;
mod registry;
mod run_cache;
mod subscriber;
#[cfg(test)]
mod tests;
mod topic;

use std::sync::Arc;

use parking_lot::Mutex;
use provost_engine::Engine;
use tokio::task::AbortHandle;

pub(crate) use self::delta::{delta, is_also_durable};
pub(crate) use self::registry::LiveSubscription;
use self::registry::SubscriptionRegistry;
pub(crate) use self::subscriber::{Frame, FrameKind, Interest, Received};
pub(crate) use self::topic::Topic;

/// Subscriptions to new events.
pub(crate) struct LiveEvents {
    registry: Arc<SubscriptionRegistry>,
    /// Task that reads the log. The first subscription starts it.
    dispatcher_task: Mutex<Option<AbortHandle>>,
}

impl Default for LiveEvents {
    fn default() -> Self {
        Self { registry: Arc::new(SubscriptionRegistry::new()), dispatcher_task: Mutex::new(None) }
    }
}

impl LiveEvents {
    /// Subscribes to a topic. The subscription receives every event that is committed after this method returns, so a caller that
    /// then reads the database to its end and continues with the subscription misses no event.
    pub(crate) async fn subscribe(
        &self,
        engine: &Engine,
        topic: Topic,
        interest: Interest,
    ) -> LiveSubscription {
        self.start_dispatcher(engine);
        let subscription = SubscriptionRegistry::subscribe(&self.registry, topic, interest);
        self.registry.wait_until_tailing().await;
        subscription
    }

    /// Returns the number of open streams and waits.
    pub(crate) fn subscriber_count(&self) -> usize {
        self.registry.subscriber_count()
    }

    /// Starts the task that passes committed events to the subscriptions, unless it runs.
    fn start_dispatcher(&self, engine: &Engine) {
        let mut dispatcher_task = self.dispatcher_task.lock();
        if dispatcher_task.as_ref().is_none_or(AbortHandle::is_finished) {
            let task = tokio::spawn(dispatcher::run(engine.clone(), Arc::clone(&self.registry)));
            *dispatcher_task = Some(task.abort_handle());
        }
    }
}

impl Drop for LiveEvents {
    fn drop(&mut self) {
        let dispatcher_task = self.dispatcher_task.get_mut();
        if let Some(dispatcher_task) = dispatcher_task.take() {
            dispatcher_task.abort();
        }
    }
}
