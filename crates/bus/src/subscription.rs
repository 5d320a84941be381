//! Receiving end of a topic.

use std::time::Duration;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::{BusMessage, Wakeup};

/// A slow subscriber missed messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lagged {
    /// Number of missed messages.
    pub missed: u64,
}

/// Receiving end of a topic. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Subscription {
    receiver: Receiver<BusMessage>,
}

impl Subscription {
    /// Creates a subscription that reads from a channel. A bus creates one per subscriber.
    pub fn new(receiver: Receiver<BusMessage>) -> Self {
        Self { receiver }
    }

    /// Waits for the next message. Waits forever after the bus was dropped.
    pub async fn recv(&mut self) -> Result<BusMessage, Lagged> {
        match self.receiver.recv().await {
            Ok(message) => Ok(message),
            Err(RecvError::Lagged(missed)) => Err(Lagged { missed }),
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }

    /// Returns the next message that has already arrived. `None` if there is none.
    pub fn try_recv(&mut self) -> Option<Result<BusMessage, Lagged>> {
        match self.receiver.try_recv() {
            Ok(message) => Some(Ok(message)),
            Err(TryRecvError::Lagged(missed)) => Some(Err(Lagged { missed })),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
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
