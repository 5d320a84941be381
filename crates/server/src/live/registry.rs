//! Registry of the subscribers of each topic.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::{Mutex, RwLock, RwLockReadGuard, RwLockWriteGuard};
use provost_core::RunId;
use tokio::sync::{Notify, watch};

use super::run_cache::RunTopicCache;
use super::subscriber::{Frame, Interest, Subscriber};
use super::topic::Topic;

/// The subscribers of all topics, and the state that they share with the dispatcher.
pub(super) struct SubscriptionRegistry {
    subscribers: RwLock<Subscribers>,
    /// Number of subscribers that want deltas of a task, session or namespace.
    wide_delta_subscribers: AtomicUsize,
    /// True while the dispatcher reads the log.
    is_tailing: watch::Sender<bool>,
    /// Wakes the dispatcher.
    pub(super) wake: Notify,
    pub(super) runs: Mutex<RunTopicCache>,
}

#[derive(Default)]
struct Subscribers {
    by_topic: HashMap<Topic, Vec<Arc<Subscriber>>>,
    count: usize,
}

impl SubscriptionRegistry {
    pub(super) fn new() -> Self {
        Self {
            subscribers: RwLock::default(),
            wide_delta_subscribers: AtomicUsize::new(0),
            is_tailing: watch::Sender::new(false),
            wake: Notify::new(),
            runs: Mutex::default(),
        }
    }

    pub(super) fn subscribe(
        registry: &Arc<Self>,
        topic: Topic,
        interest: Interest,
    ) -> LiveSubscription {
        let subscriber = Arc::new(Subscriber::new(interest));
        let mut subscribers = registry.write();
        let list = subscribers.by_topic.entry(topic.clone()).or_default();
        subscriber.index.store(list.len(), Ordering::Relaxed);
        list.push(Arc::clone(&subscriber));
        subscribers.count += 1;
        if is_wide_delta_subscriber(&topic, interest) {
            registry.wide_delta_subscribers.fetch_add(1, Ordering::Relaxed);
        }
        drop(subscribers);
        registry.wake.notify_one();
        LiveSubscription { registry: Arc::clone(registry), topic, subscriber }
    }

    fn unsubscribe(&self, topic: &Topic, subscriber: &Subscriber) {
        let mut subscribers = self.write();
        let Entry::Occupied(mut list) = subscribers.by_topic.entry(topic.clone()) else {
            return;
        };
        let index = subscriber.index.load(Ordering::Relaxed);
        if index < list.get().len() {
            list.get_mut().swap_remove(index);
            if let Some(moved) = list.get().get(index) {
                moved.index.store(index, Ordering::Relaxed);
            }
        }
        if list.get().is_empty() {
            list.remove();
        }
        subscribers.count -= 1;
        if is_wide_delta_subscriber(topic, subscriber.interest) {
            self.wide_delta_subscribers.fetch_sub(1, Ordering::Relaxed);
        }
    }

    pub(super) fn subscriber_count(&self) -> usize {
        self.read().count
    }

    /// Waits until the dispatcher reads the log.
    pub(super) async fn wait_until_tailing(&self) {
        // The sender is a field of `self`, so it cannot be dropped.
        drop(self.is_tailing.subscribe().wait_for(|is_tailing| *is_tailing).await);
    }

    /// Marks that the dispatcher reads the log from now on.
    pub(super) fn start_tailing(&self) {
        self.is_tailing.send_replace(true);
    }

    /// Marks that the dispatcher stops reading, and returns true if there is no subscriber. It holds the lock, so that a
    /// concurrent subscription sees the new state.
    pub(super) fn stop_if_idle(&self) -> bool {
        let subscribers = self.write();
        if subscribers.count > 0 {
            return false;
        }
        self.is_tailing.send_replace(false);
        true
    }

    /// Returns true if a subscriber may want deltas of the run. It is a fast check before each delta.
    pub(super) fn may_want_deltas(&self, run: RunId) -> bool {
        self.wide_delta_subscribers.load(Ordering::Relaxed) > 0
            || self.read().by_topic.contains_key(&Topic::Run(run))
    }

    /// Returns true if a subscriber of these topics wants deltas.
    pub(super) fn wants_deltas(&self, topics: &[Topic]) -> bool {
        let subscribers = self.read();
        let mut lists = topics.iter().filter_map(|topic| subscribers.by_topic.get(topic));
        lists.any(|list| {
            list.iter().any(|subscriber| subscriber.interest == Interest::EventsAndDeltas)
        })
    }

    /// Delivers a frame to the subscribers of the topics. The frame is encoded at most once per kind of cursor.
    pub(super) fn publish(&self, topics: &[Topic], make: impl Fn(&Topic) -> Frame) {
        let subscribers = self.read();
        let mut encodings: [Option<Arc<Frame>>; 2] = [None, None];
        for topic in topics {
            let Some(list) = subscribers.by_topic.get(topic) else {
                continue;
            };
            let encoding = &mut encodings[usize::from(topic.is_run())];
            let frame = encoding.get_or_insert_with(|| Arc::new(make(topic)));
            for subscriber in list {
                subscriber.push(frame);
            }
        }
    }

    /// Delivers an encoded frame to the subscribers of the topics.
    pub(super) fn publish_shared(&self, topics: &[Topic], frame: &Arc<Frame>) {
        let subscribers = self.read();
        for subscriber in
            topics.iter().filter_map(|topic| subscribers.by_topic.get(topic)).flatten()
        {
            subscriber.push(frame);
        }
    }

    /// Reports dropped deltas to all subscribers.
    pub(super) fn record_dropped_deltas(&self, deltas: u64) {
        for subscriber in self.read().by_topic.values().flatten() {
            subscriber.record_dropped(deltas);
        }
    }

    fn read(&self) -> RwLockReadGuard<'_, Subscribers> {
        self.subscribers.read()
    }

    fn write(&self) -> RwLockWriteGuard<'_, Subscribers> {
        self.subscribers.write()
    }
}

fn is_wide_delta_subscriber(topic: &Topic, interest: Interest) -> bool {
    interest == Interest::EventsAndDeltas && !topic.is_run()
}

/// A subscription. It ends when it is dropped.
pub(crate) struct LiveSubscription {
    registry: Arc<SubscriptionRegistry>,
    topic: Topic,
    subscriber: Arc<Subscriber>,
}

impl Deref for LiveSubscription {
    type Target = Subscriber;
    fn deref(&self) -> &Subscriber {
        &self.subscriber
    }
}

impl Drop for LiveSubscription {
    fn drop(&mut self) {
        self.registry.unsubscribe(&self.topic, &self.subscriber);
    }
}
