//! Bus of one process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::sync::broadcast::Sender;

use crate::{Bus, BusMessage, Notice, PublishError, Subscription, Topic};

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

    /// Locks the channels by topic.
    fn channels(&self) -> MutexGuard<'_, HashMap<Topic, Sender<BusMessage>>> {
        // Nothing that can panic runs under this lock.
        self.channels.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
        let mut channels = self.channels();
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
        let mut channels = self.channels();
        // Topics of single runs are short-lived, so unused ones are removed here.
        if channels.len() >= channels.capacity() {
            channels.retain(|_, channel| channel.receiver_count() > 0);
        }
        let channel = channels.entry(topic).or_insert_with(|| Sender::new(backlog));
        Subscription::new(channel.subscribe())
    }

    fn has_subscribers(&self, topic: Topic) -> bool {
        self.channels().get(&topic).is_some_and(|channel| channel.receiver_count() > 0)
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
    use provost_core::{Env, RunId};

    use super::*;
    use crate::{Lagged, Wakeup};

    fn wakeups(subscription: &mut Subscription) -> Vec<Wakeup> {
        let mut found = Vec::new();
        while let Some(Ok(BusMessage::Wakeup(wakeup))) = subscription.try_recv() {
            found.push(wakeup);
        }
        found
    }

    #[test]
    fn a_wakeup_reaches_the_subscribers_of_its_topics_and_no_others() {
        let (bus, env) = (LocalBus::new(), Env::simulated(1));
        let (run, other): (RunId, RunId) = (env.id(), env.id());
        let mut all = bus.subscribe(Topic::Wakeups);
        let mut tasks = bus.subscribe(Topic::Tasks);
        let mut one = bus.subscribe(Topic::Wakeup(Wakeup::Ended(run)));
        let mut live = bus.subscribe(Topic::LiveEvents);
        let sent = [Wakeup::Ended(other), Wakeup::RunReady, Wakeup::Ended(run)];
        for wakeup in sent {
            bus.send(BusMessage::Wakeup(wakeup));
        }
        assert_eq!(wakeups(&mut all), sent);
        assert_eq!(wakeups(&mut tasks), [Wakeup::RunReady]);
        assert_eq!(wakeups(&mut one), [Wakeup::Ended(run)]);
        assert_eq!(wakeups(&mut live), []);
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
        assert!(!bus.has_subscribers(Topic::Notices));
        let subscription = bus.subscribe(Topic::Notices);
        assert!(bus.has_subscribers(Topic::Notices));
        drop(subscription);
        assert!(!bus.has_subscribers(Topic::Notices));
        let env = Env::simulated(1);
        for _ in 0..10_000 {
            drop(bus.subscribe(Topic::Wakeup(Wakeup::Ended(env.id()))));
        }
        assert!(bus.channels().len() < 1_000);
    }
}
