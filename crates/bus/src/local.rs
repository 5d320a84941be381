//! Bus of one process.

use std::collections::HashMap;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use futures::stream::{self, Stream};
use parking_lot::Mutex;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};

use crate::{Bus, BusMessage, Lagged, Notice, PublishError, Subscription, Topic};

/// Number of messages that a subscriber can lag behind.
const BACKLOG: usize = 4096;
/// The same for a subscriber of one wakeup. A second wakeup contains no new information.
const BACKLOG_ONE: usize = 1;

/// Connects the parts of one process.
#[derive(Debug, Default)]
pub struct LocalBus {
    channels: Mutex<HashMap<Topic, Sender<BusMessage>>>,
}

impl LocalBus {
    /// Creates a bus without subscribers.
    pub fn new() -> Self {
        Self::default()
    }
}

/// Returns the messages of a channel, until the bus is dropped.
fn messages(receiver: Receiver<BusMessage>) -> impl Stream<Item = Result<BusMessage, Lagged>> {
    stream::unfold(receiver, |mut receiver| async {
        let message = match receiver.recv().await {
            Ok(message) => Ok(message),
            Err(RecvError::Lagged(missed)) => Err(Lagged { missed }),
            Err(RecvError::Closed) => return None,
        };
        Some((message, receiver))
    })
}

impl BusMessage {
    /// Returns the topics whose subscribers receive the message.
    fn topics(&self) -> impl Iterator<Item = Topic> {
        let topics = match self {
            Self::Wakeup(wakeup) => [
                Some(Topic::Wakeup(*wakeup)),
                Some(Topic::Wakeups),
                wakeup.is_task().then_some(Topic::Tasks),
            ],
            Self::Live(_) => [Some(Topic::LiveEvents), None, None],
            Self::Notice(_) => [Some(Topic::Notices), None, None],
        };
        topics.into_iter().flatten()
    }
}

impl Bus for LocalBus {
    fn send(&self, message: BusMessage) {
        let mut channels = self.channels.lock();
        for topic in message.topics() {
            let Some(channel) = channels.get(&topic) else { continue };
            // An error means that the last subscriber has left.
            if channel.send(message.clone()).is_err() {
                channels.remove(&topic);
            }
        }
    }

    fn subscribe(&self, topic: Topic) -> Subscription {
        let backlog = match topic {
            Topic::Wakeup(_) => BACKLOG_ONE,
            _ => BACKLOG,
        };
        let mut channels = self.channels.lock();
        // Topics of single runs are short-lived, so unused ones are removed here.
        if channels.len() >= channels.capacity() {
            channels.retain(|_, channel| channel.receiver_count() > 0);
        }
        let channel = channels.entry(topic).or_insert_with(|| Sender::new(backlog));
        Subscription::new(messages(channel.subscribe()))
    }

    fn may_have_subscribers(&self, topic: Topic) -> bool {
        self.channels.lock().get(&topic).is_some_and(|channel| channel.receiver_count() > 0)
    }

    fn publish<'a>(&'a self, notice: &'a Notice) -> BoxFuture<'a, Result<(), PublishError>> {
        async {
            self.send(BusMessage::Notice(Arc::new(notice.clone())));
            Ok(())
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests {
    use provost_core::Env;

    use super::*;
    use crate::{Wakeup, conformance};

    #[tokio::test]
    async fn the_bus_of_one_process_passes_the_conformance_checks() {
        conformance::all(&LocalBus::new()).await;
    }

    #[tokio::test]
    async fn a_slow_subscriber_learns_how_much_it_missed_and_is_woken() {
        let bus = LocalBus::new();
        let mut slow = bus.subscribe(Topic::Wakeups);
        for _ in 0..BACKLOG + 3 {
            bus.send(BusMessage::Wakeup(Wakeup::Timer));
        }
        assert_eq!(slow.recv().await.unwrap_err(), Lagged { missed: 3 });
        for _ in 0..BACKLOG + 1 {
            bus.send(BusMessage::Wakeup(Wakeup::Timer));
        }
        slow.woken(|wakeup| wakeup == Wakeup::Outbox).await;
    }

    #[test]
    fn a_topic_without_subscribers_is_forgotten() {
        let bus = LocalBus::new();
        assert!(!bus.may_have_subscribers(Topic::Notices));
        let subscription = bus.subscribe(Topic::Notices);
        assert!(bus.may_have_subscribers(Topic::Notices));
        drop(subscription);
        assert!(!bus.may_have_subscribers(Topic::Notices));
        let env = Env::simulated(1);
        for _ in 0..10_000 {
            drop(bus.subscribe(Topic::Wakeup(Wakeup::Ended(env.id()))));
        }
        assert!(bus.channels.lock().len() < 1_000);
    }
}
