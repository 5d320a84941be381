//! The receiving end of a topic.

use std::time::Duration;

use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use crate::{Message, Wakeup};

/// A slow subscriber missed messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lagged {
    /// How many.
    pub missed: u64,
}

/// The receiving end of a topic. Dropping it ends the subscription.
#[derive(Debug)]
pub struct Subscription {
    receiver: Receiver<Message>,
}

impl Subscription {
    /// A subscription that reads from a channel. A bus creates one per subscriber.
    pub fn new(receiver: Receiver<Message>) -> Self {
        Self { receiver }
    }

    /// Waits for the next message. It waits for ever once the bus is gone.
    pub async fn recv(&mut self) -> Result<Message, Lagged> {
        match self.receiver.recv().await {
            Ok(message) => Ok(message),
            Err(RecvError::Lagged(missed)) => Err(Lagged { missed }),
            Err(RecvError::Closed) => std::future::pending().await,
        }
    }

    /// The next message that is already there.
    pub fn try_recv(&mut self) -> Option<Result<Message, Lagged>> {
        match self.receiver.try_recv() {
            Ok(message) => Some(Ok(message)),
            Err(TryRecvError::Lagged(missed)) => Some(Err(Lagged { missed })),
            Err(TryRecvError::Empty | TryRecvError::Closed) => None,
        }
    }

    /// Waits until a wake-up arrives that passes the filter, or until messages were missed.
    pub async fn woken(&mut self, wanted: impl Fn(Wakeup) -> bool) {
        loop {
            match self.recv().await {
                Ok(Message::Wakeup(wakeup)) if wanted(wakeup) => return,
                Ok(_) => {}
                Err(Lagged { .. }) => return,
            }
        }
    }

    /// Like [`woken`](Self::woken), but at most for the time after which the caller polls anyway.
    pub async fn woken_or_after(&mut self, poll: Duration, wanted: impl Fn(Wakeup) -> bool) {
        drop(tokio::time::timeout(poll, self.woken(wanted)).await);
    }
}
