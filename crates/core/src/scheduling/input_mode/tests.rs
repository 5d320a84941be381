//! The decision table of messages, the limit of waiting ones, and the order of settings.

use super::*;
use crate::lifecycle::{ParkedFor, RunEvent};

use DeliveryOutcome as O;
use InputAction as A;
use QueueMode as M;
use Situation as S;

/// Mode, then what is done when waiting, when steerable, when not, when closed.
const TABLE: [(M, [A; 4]); 7] = [
    (M::Queue, [A::Deliver, A::QueueNewTask, A::QueueNewTask, A::Restart]),
    (M::Followup, [A::Deliver, A::QueueSameTask, A::QueueSameTask, A::Restart]),
    (M::Collect, [A::Deliver, A::Collect, A::Collect, A::Restart]),
    (M::Steer, [A::Deliver, A::Steer, A::QueueAsFallback, A::Restart]),
    (M::Interrupt, [A::Deliver, A::Interrupt, A::Interrupt, A::Restart]),
    (M::Reject, [A::Deliver, A::Reject, A::Reject, A::Restart]),
    (M::Rollback, [A::Deliver, A::Rollback, A::Rollback, A::Restart]),
];

#[test]
fn the_decision_table() {
    let situations = [S::WaitingForInput, S::CanSteer, S::CannotSteer, S::Closed];
    assert_eq!(situations.as_slice(), S::ALL);
    assert_eq!(TABLE.map(|row| row.0).as_slice(), M::ALL);
    for (mode, actions) in TABLE {
        for (situation, action) in situations.into_iter().zip(actions) {
            assert_eq!(mode.route(situation), action, "{mode} {situation}");
        }
    }
}

#[test]
fn the_sender_is_told_the_words_of_the_spec() {
    for (action, outcome) in [
        (A::Deliver, O::Direct),
        (A::QueueNewTask, O::Queued),
        (A::QueueSameTask, O::Queued),
        (A::QueueAsFallback, O::Queued),
        (A::Collect, O::Collected),
        (A::Steer, O::Steered),
        (A::Interrupt, O::Interrupted),
        (A::Rollback, O::Interrupted),
        (A::Reject, O::Rejected),
        (A::Restart, O::Restarted),
    ] {
        assert_eq!(action.outcome(), outcome);
    }
}

#[test]
fn the_retired_spelling_is_read_and_never_written() {
    assert_eq!("steer-backlog".parse::<M>(), Ok(M::Steer));
    assert_eq!(serde_json::from_str::<M>("\"steer-backlog\"").unwrap(), M::Steer);
    assert_eq!(serde_json::to_string(&M::Steer).unwrap(), "\"steer\"");
}

#[test]
fn a_program_follows_up_and_a_person_steers() {
    assert_eq!(QueueSettings::default().mode, M::Followup);
    assert_eq!(QueueSettings::chat().mode, M::Steer);
    let settings = QueueSettings::default();
    assert_eq!((settings.cap, settings.debounce.as_millis()), (20, 500));
    assert_eq!(settings.drop, DropPolicy::Summarize);
}

#[test]
fn the_situation_follows_from_the_run() {
    let after = |events: &[RunEvent]| {
        events.iter().fold(RunState::ACCEPTED, |state, event| state.next(*event).unwrap())
    };
    let question = [RunEvent::Claimed, RunEvent::Parked(ParkedFor::Question)];
    let approval = [RunEvent::Claimed, RunEvent::Parked(ParkedFor::Approval)];
    for (events, takes_steering, situation) in [
        (&[][..], true, S::CannotSteer),
        (&[RunEvent::Claimed], true, S::CanSteer),
        (&[RunEvent::Claimed], false, S::CannotSteer),
        (&[RunEvent::Claimed, RunEvent::Requeued], true, S::CanSteer),
        (&approval, true, S::CanSteer),
        (&question, true, S::WaitingForInput),
        (&[RunEvent::Cancelled], true, S::Closed),
    ] {
        assert_eq!(Situation::of(after(events), 0, takes_steering), situation, "{events:?}");
    }
}

#[test]
fn g29_too_many_messages_give_way_as_the_policy_says() {
    let settings = |drop| QueueSettings { cap: 3, drop, ..QueueSettings::default() };
    let oldest = |count, summarize| Overflow::DropOldest { count, summarize };
    for (drop, pending, overflow) in [
        (DropPolicy::Old, 2, Overflow::Fits),
        (DropPolicy::New, 2, Overflow::Fits),
        (DropPolicy::Summarize, 0, Overflow::Fits),
        (DropPolicy::Old, 3, oldest(1, false)),
        (DropPolicy::Old, 5, oldest(3, false)),
        (DropPolicy::Summarize, 3, oldest(1, true)),
        (DropPolicy::New, 3, Overflow::Reject),
        (DropPolicy::New, usize::MAX, Overflow::Reject),
        (DropPolicy::Old, usize::MAX, oldest(usize::MAX - 2, false)),
    ] {
        assert_eq!(settings(drop).overflow(pending), overflow, "{drop} {pending}");
    }
}

#[test]
fn never_more_wait_than_the_cap_says() {
    for cap in 1..30 {
        for &drop in DropPolicy::ALL {
            let settings = QueueSettings { cap, drop, ..QueueSettings::default() };
            let mut pending: usize = 0;
            for _ in 0..100 {
                pending = match settings.overflow(pending) {
                    Overflow::Fits => pending + 1,
                    Overflow::Reject => pending,
                    Overflow::DropOldest { count, .. } => pending + 1 - count,
                };
                assert!(pending <= cap);
            }
            assert_eq!(pending, cap);
        }
    }
}

#[test]
fn only_collected_messages_wait_for_quiet() {
    let now = Timestamp::from_millis(1000);
    for &mode in M::ALL {
        let wait = if mode == M::Collect { 500 } else { 0 };
        assert_eq!(QueueSettings::default().due(mode, now).as_millis(), 1000 + wait);
    }
}

#[test]
fn the_strongest_layer_that_says_something_wins() {
    let global = QueueOverride { mode: Some(M::Collect), cap: Some(5), ..Default::default() };
    let channel = QueueOverride { cap: Some(7), debounce_ms: Some(50), ..Default::default() };
    let call = QueueOverride { mode: Some(M::Interrupt), ..Default::default() };
    let settings = QueueSettings::default().with(&[global, channel, call]);
    assert_eq!((settings.mode, settings.cap), (M::Interrupt, 7));
    assert_eq!(settings.debounce, Duration::from_millis(50));
    assert_eq!(settings.drop, DropPolicy::Summarize);
}

#[test]
fn settings_out_of_range_are_refused_with_a_place() {
    for (layer, path) in [
        (QueueOverride { cap: Some(0), ..Default::default() }, "queue.cap"),
        (QueueOverride { cap: Some(1001), ..Default::default() }, "queue.cap"),
        (QueueOverride { debounce_ms: Some(60_001), ..Default::default() }, "queue.debounce_ms"),
    ] {
        let error = QueueSettings::default().with(&[layer]).validate().unwrap_err();
        assert!(error.to_string().starts_with(path), "{error}");
    }
    assert_eq!(QueueSettings::default().validate(), Ok(()));
}
