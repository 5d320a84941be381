//! Receiving end of a topic.

use std::fmt;
use std::time::Duration;

use futures::stream::{BoxStream, Fuse};
use futures::{FutureExt, Stream, StreamExt};
use tokio::task::unconstrained;

use crate::{BusMessage, Wakeup};

/// A slow subscriber missed messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lagged {
    /// Number of missed messages.
    pub missed: u64,
}

/// Receiving end of a topic. Dropping it ends the subscription.
pub struct Subscription {
    messages: Fuse<BoxStream<'static, Result<BusMessage, Lagged>>>,
}

impl Subscription {
    /// Creates a subscription that reads from a stream. A bus creates one per subscriber.
    pub fn new(messages: impl Stream<Item = Result<BusMessage, Lagged>> + Send + 'static) -> Self {
        Self { messages: messages.boxed().fuse() }
    }

    /// Waits for the next message. Waits forever after the bus was dropped.
    pub async fn recv(&mut self) -> Result<BusMessage, Lagged> {
        match self.messages.next().await {
            Some(message) => message,
            None => std::future::pending().await,
        }
    }

    /// Returns the next message that has already arrived. `None` if there is none.
    pub fn try_recv(&mut self) -> Option<Result<BusMessage, Lagged>> {
        // Unconstrained, because an exhausted budget of the task would hide an available message.
        unconstrained(self.messages.next()).now_or_never().flatten()
    }

    /// Waits until a wakeup passes the filter, or until messages were missed.
    pub async fn woken(&mut self, wanted: impl Fn(Wakeup) -> bool) {
        loop {
            match self.recv().await {
                Ok(BusMessage::Wakeup(wakeup)) if wanted(wakeup) => return,
                Ok(_) => {}
                Err(Lagged { .. }) => return,
            }
        }
    }

    /// Waits until a wakeup passes the filter, until messages were missed, or for the polling interval of the caller.
    pub async fn woken_or_after(&mut self, poll: Duration, wanted: impl Fn(Wakeup) -> bool) {
        drop(tokio::time::timeout(poll, self.woken(wanted)).await);
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").finish_non_exhaustive()
    }
}
