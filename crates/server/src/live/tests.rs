//! The registry and its subscribers.

use std::sync::Arc;

use bytes::Bytes;
use provost_bus::{LiveEvent, RunAddress};
use provost_core::lifecycle::RunStatus;
use provost_core::{Env, Event, EventKind, RunId};
use provost_store::query::event_log::RunScope;

use super::delta::QueuedDelta;
use super::registry::SubscriptionRegistry;
use super::subscriber::{Frame, FrameKind, Interest, Received};
use super::topic::Topic;

fn event(at: u64, bytes: usize) -> Arc<Frame> {
    let kind = FrameKind::Durable { at, epoch: 1, end: None };
    Arc::new(Frame { bytes: Bytes::from(vec![b'x'; bytes]), kind })
}

fn live(run: RunId, number: u64) -> Arc<Frame> {
    Arc::new(Frame {
        bytes: Bytes::from_static(b"x"),
        kind: FrameKind::Delta { run, epoch: 1, number },
    })
}

fn place(env: &Env) -> (RunId, RunScope) {
    let namespace = "default".to_owned();
    (
        env.id(),
        RunScope { namespace, task: env.id(), session: "chat".to_owned(), ancestors: Vec::new() },
    )
}

#[test]
fn g45_a_seat_that_nobody_empties_holds_a_bounded_amount() {
    let env = Env::simulated(1);
    let (run, place) = place(&env);
    let registry = Arc::new(SubscriptionRegistry::new());
    let topics = Topic::of(run, &place);
    let subscriber =
        SubscriptionRegistry::subscribe(&registry, Topic::Run(run), Interest::EventsAndDeltas);
    subscriber.start_deltas();
    for number in 0..1000 {
        registry.publish_shared(&topics, &live(run, number));
    }
    let frame = event(1, 100);
    registry.publish_shared(&topics, &frame);
    assert!(Arc::strong_count(&frame) == 2, "durable events find a place after live pieces");
    for at in 2..1000 {
        registry.publish_shared(&topics, &event(at, 100));
    }
    assert_eq!(Arc::strong_count(&frame), 1, "dropped frames are released");
    assert!(matches!(subscriber.receive(), Received::Lagged));
    subscriber.resume();
    assert!(matches!(subscriber.receive(), Received::DeltasDropped(1000)));
    assert!(matches!(subscriber.receive(), Received::Empty));
    // Large events count by their size, but one is always taken.
    let large = event(2000, 1 << 20);
    registry.publish_shared(&topics, &large);
    assert_eq!(Arc::strong_count(&large), 2);
    registry.publish_shared(&topics, &event(2001, 1));
    assert!(matches!(subscriber.receive(), Received::Lagged));
    assert_eq!(Arc::strong_count(&large), 1);
}

#[test]
fn live_pieces_that_come_before_a_viewer_has_caught_up_are_not_missed() {
    let env = Env::simulated(1);
    let (run, place) = place(&env);
    let registry = Arc::new(SubscriptionRegistry::new());
    let topics = Topic::of(run, &place);
    let subscriber = SubscriptionRegistry::subscribe(
        &registry,
        Topic::Task(place.task),
        Interest::EventsAndDeltas,
    );
    registry.publish_shared(&topics, &live(run, 0));
    registry.record_dropped_deltas(3);
    assert!(matches!(subscriber.receive(), Received::Empty));
    subscriber.start_deltas();
    registry.publish_shared(&topics, &live(run, 1));
    assert!(matches!(subscriber.receive(), Received::Frame(_)));
    registry.record_dropped_deltas(3);
    assert!(matches!(subscriber.receive(), Received::DeltasDropped(3)));
}

#[test]
fn whoever_goes_leaves_the_others_where_they_are() {
    let env = Env::simulated(1);
    let (run, place) = place(&env);
    let registry = Arc::new(SubscriptionRegistry::new());
    let topics = Topic::of(run, &place);
    let mut subscribers: Vec<_> = (0..10)
        .map(|_| SubscriptionRegistry::subscribe(&registry, Topic::Run(run), Interest::Events))
        .collect();
    for gone in [0, 8, 3, 3] {
        subscribers.remove(gone);
    }
    assert_eq!(registry.subscriber_count(), 6);
    let frame = event(1, 1);
    registry.publish_shared(&topics, &frame);
    assert_eq!(Arc::strong_count(&frame), 7);
    assert!(
        subscribers.iter().all(|subscriber| matches!(subscriber.receive(), Received::Frame(_)))
    );
    assert!(!registry.stop_if_idle());
    subscribers.clear();
    assert_eq!(registry.subscriber_count(), 0);
    assert!(registry.stop_if_idle());
}

#[tokio::test]
async fn a_waiter_is_woken_by_an_end_only() {
    let env = Env::simulated(1);
    let (run, place) = place(&env);
    let registry = Arc::new(SubscriptionRegistry::new());
    let topics = Topic::of(run, &place);
    let subscriber =
        SubscriptionRegistry::subscribe(&registry, Topic::Task(place.task), Interest::Completion);
    registry.publish_shared(&topics, &event(1, 1));
    registry.publish_shared(&topics, &live(run, 1));
    let changed = subscriber.changed();
    tokio::pin!(changed);
    assert!(futures::poll!(&mut changed).is_pending());
    let kind = FrameKind::Durable { at: 2, epoch: 1, end: Some(RunStatus::Ok) };
    registry.publish_shared(&topics, &Arc::new(Frame { bytes: Bytes::new(), kind }));
    assert!(futures::poll!(&mut changed).is_ready());
    assert!(matches!(subscriber.receive(), Received::Empty), "nothing is kept for it");
}

#[test]
fn pieces_of_an_attempt_that_has_lost_its_run_are_dropped() {
    let env = Env::simulated(1);
    let (run, place) = place(&env);
    let registry = Arc::new(SubscriptionRegistry::new());
    let is_encoded = |epoch| {
        let RunScope { namespace, task, session, ancestors } = place.clone();
        let kind = EventKind::TextDelta { text: "x".to_owned() };
        let (v, at) = (provost_core::EVENT_VERSION, env.now());
        let event = Event { v, run_id: run, seq: 1, at, agent: "a".into(), kind };
        let place = Arc::new(RunAddress { namespace, task, session, ancestors, run, epoch });
        QueuedDelta::encode(&registry, &LiveEvent { address: place, number: 1, event }).is_some()
    };
    assert!(!is_encoded(1), "nobody watches");
    let subscriber = SubscriptionRegistry::subscribe(
        &registry,
        Topic::Session("default".into(), "chat".into()),
        Interest::EventsAndDeltas,
    );
    assert!(is_encoded(1));
    registry.runs.lock().get(run).unwrap().observe_epoch(2);
    assert!(!is_encoded(1), "a newer epoch has the run");
    assert!(is_encoded(2));
    drop(subscriber);
}

#[test]
fn places_that_nobody_asks_for_are_forgotten() {
    let env = Env::simulated(1);
    let registry = SubscriptionRegistry::new();
    let mut runs_cache = registry.runs.lock();
    let (first, place) = place(&env);
    runs_cache.put(first, &place);
    let mut runs = Vec::new();
    for _ in 0..20_000 {
        let run = env.id();
        runs_cache.put(run, &place);
        runs.push(run);
        assert!(runs_cache.get(first).is_some(), "recently used entries remain");
    }
    assert!(runs[..10_000].iter().all(|run| runs_cache.get(*run).is_none()));
}
