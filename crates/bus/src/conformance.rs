//! Conformance checks for implementations of [`Bus`].
//!
//! A check panics if the bus violates the contract. A bus may lose messages in general; during the checks it must not.

#![expect(clippy::panic, clippy::expect_used, reason = "a failed check panics")]

use std::sync::Arc;
use std::time::Duration;

use provost_core::{EVENT_VERSION, Env, Event, EventKind, RunId};
use serde_json::json;

use crate::{
    Bus, BusMessage, Lagged, LiveEvent, Notice, RUN_ENDED, RunAddress, Subscription, Topic, Wakeup,
};

/// Time in which a message must arrive.
const ARRIVAL_MAX: Duration = Duration::from_secs(10);
/// Messages that no subscriber needs to buffer.
const FLOOD: u64 = 100_000;

/// Runs all checks. The bus must have no other users.
///
/// # Panics
/// If the bus violates the contract.
pub async fn all(bus: &dyn Bus) {
    messages_reach_the_subscribers_of_their_topics(bus).await;
    every_subscriber_receives_each_message(bus).await;
    subscriptions_start_empty(bus).await;
    lagging_subscribers_learn_their_loss(bus).await;
    published_notices_arrive(bus).await;
    subscribed_topics_are_reported(bus);
    messages_survive_serialization();
}

/// A message reaches the subscribers of its topics in the order of sending, and no others.
///
/// # Panics
/// If the bus violates the contract.
pub async fn messages_reach_the_subscribers_of_their_topics(bus: &dyn Bus) {
    let env = Env::system();
    let (run, other): (RunId, RunId) = (env.id(), env.id());
    let mut all = bus.subscribe(Topic::Wakeups);
    let mut tasks = bus.subscribe(Topic::Tasks);
    let mut one = bus.subscribe(Topic::Wakeup(Wakeup::Ended(run)));
    let mut live = bus.subscribe(Topic::LiveEvents);
    let mut notices = bus.subscribe(Topic::Notices);
    let sent = [Wakeup::Ended(other), Wakeup::RunReady, Wakeup::Ended(run)].map(BusMessage::Wakeup);
    let (event, notice) = (live_event(), BusMessage::Notice(Arc::new(notice())));
    for message in sent.iter().chain([&event, &notice]) {
        bus.send(message.clone());
    }
    for message in &sent {
        assert_eq!(&receive(&mut all).await, message);
    }
    assert_eq!(receive(&mut tasks).await, BusMessage::Wakeup(Wakeup::RunReady));
    assert_eq!(receive(&mut one).await, BusMessage::Wakeup(Wakeup::Ended(run)));
    assert_eq!(receive(&mut live).await, event);
    assert_eq!(receive(&mut notices).await, notice);
    for topic in [&mut all, &mut tasks, &mut one, &mut live, &mut notices] {
        assert_eq!(topic.try_recv(), None, "a message of another topic");
    }
}

/// Subscribers of one topic do not take messages from each other.
///
/// # Panics
/// If the bus violates the contract.
pub async fn every_subscriber_receives_each_message(bus: &dyn Bus) {
    let mut subscribers = [bus.subscribe(Topic::Tasks), bus.subscribe(Topic::Tasks)];
    bus.send(BusMessage::Wakeup(Wakeup::Timer));
    for subscriber in &mut subscribers {
        assert_eq!(receive(subscriber).await, BusMessage::Wakeup(Wakeup::Timer));
    }
}

/// A subscription contains only messages that were sent after it was created.
///
/// # Panics
/// If the bus violates the contract.
pub async fn subscriptions_start_empty(bus: &dyn Bus) {
    let mut early = bus.subscribe(Topic::Tasks);
    bus.send(BusMessage::Wakeup(Wakeup::Outbox));
    assert_eq!(receive(&mut early).await, BusMessage::Wakeup(Wakeup::Outbox));
    let mut late = bus.subscribe(Topic::Tasks);
    bus.send(BusMessage::Wakeup(Wakeup::Delivery));
    assert_eq!(receive(&mut late).await, BusMessage::Wakeup(Wakeup::Delivery));
}

/// Sending never waits for a slow subscriber. The subscriber learns the number of messages that it missed, and
/// receives the newest one.
///
/// # Panics
/// If the bus violates the contract.
pub async fn lagging_subscribers_learn_their_loss(bus: &dyn Bus) {
    let mut slow = bus.subscribe(Topic::Wakeups);
    for _ in 0..FLOOD {
        bus.send(BusMessage::Wakeup(Wakeup::Timer));
    }
    bus.send(BusMessage::Wakeup(Wakeup::Schedule));
    let mut counted = 0;
    loop {
        match tokio::time::timeout(ARRIVAL_MAX, slow.recv()).await {
            Ok(Ok(BusMessage::Wakeup(Wakeup::Schedule))) => break,
            Ok(Ok(_)) => counted += 1,
            Ok(Err(Lagged { missed })) => counted += missed,
            Err(_) => panic!("the newest message did not arrive after {counted} of {FLOOD}"),
        }
    }
    assert_eq!(counted, FLOOD, "received and missed messages");
}

/// A published notice reaches the subscribers of notices.
///
/// # Panics
/// If the bus violates the contract.
pub async fn published_notices_arrive(bus: &dyn Bus) {
    let mut notices = bus.subscribe(Topic::Notices);
    let notice = notice();
    assert_eq!(bus.publish(&notice).await, Ok(()));
    assert_eq!(receive(&mut notices).await, BusMessage::Notice(Arc::new(notice)));
}

/// A topic with a subscriber is never reported as unused.
///
/// # Panics
/// If the bus violates the contract.
pub fn subscribed_topics_are_reported(bus: &dyn Bus) {
    let run = Env::system().id();
    let topics = [
        Topic::Wakeups,
        Topic::Tasks,
        Topic::Wakeup(Wakeup::Events(run)),
        Topic::LiveEvents,
        Topic::Notices,
    ];
    for topic in topics {
        let _subscription = bus.subscribe(topic);
        assert!(bus.may_have_subscribers(topic), "{topic:?}");
    }
}

/// Every kind of message is equal after a round trip through JSON.
///
/// # Panics
/// If a message changes.
pub fn messages_survive_serialization() {
    let run = Env::system().id();
    let wakeups = [Wakeup::RunReady, Wakeup::Cancel(run)].map(BusMessage::Wakeup);
    for message in wakeups.into_iter().chain([live_event(), BusMessage::Notice(Arc::new(notice()))])
    {
        let bytes = serde_json::to_vec(&message).expect("a message serializes");
        let read: BusMessage = serde_json::from_slice(&bytes).expect("a message deserializes");
        assert_eq!(read, message);
    }
}

async fn receive(subscription: &mut Subscription) -> BusMessage {
    let received = tokio::time::timeout(ARRIVAL_MAX, subscription.recv()).await;
    received.expect("the message arrives").expect("no message is lost")
}

fn live_event() -> BusMessage {
    let env = Env::system();
    let (run, task) = (env.id(), env.id());
    let address = RunAddress {
        namespace: "default".to_owned(),
        task,
        session: "chat".to_owned(),
        ancestors: vec![(env.id(), "lead".to_owned())],
        run,
        epoch: 2,
    };
    let event = Event {
        v: EVENT_VERSION,
        run_id: run,
        seq: 3,
        at: env.now(),
        agent: "lead/researcher".into(),
        kind: EventKind::TextDelta { text: "half".to_owned() },
    };
    BusMessage::Live(Arc::new(LiveEvent { address: Arc::new(address), number: 3, event }))
}

fn notice() -> Notice {
    Notice {
        key: "run.ended:1".to_owned(),
        namespace: "default".to_owned(),
        topic: RUN_ENDED.to_owned(),
        body: json!({ "status": "succeeded", "cost": 1.5 }),
    }
}
