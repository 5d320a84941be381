//! The decision table of messages, the limit of waiting ones, and the order of settings.

use super::*;
use crate::lifecycle::{RunTransition, WaitReason};

use InputAction as A;
use InputMode as M;
use InputOutcome as O;
use InputTargetState as S;

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
    assert_eq!(InputQueueSettings::default().mode, M::Followup);
    assert_eq!(InputQueueSettings::chat().mode, M::Steer);
    let settings = InputQueueSettings::default();
    assert_eq!((settings.cap, settings.debounce.as_millis()), (20, 500));
    assert_eq!(settings.drop, OverflowPolicy::Summarize);
}

#[test]
fn the_situation_follows_from_the_run() {
    let after = |events: &[RunTransition]| {
        events.iter().fold(RunState::ACCEPTED, |state, event| state.apply(*event).unwrap())
    };
    let question = [RunTransition::Claimed, RunTransition::Parked(WaitReason::Question)];
    let approval = [RunTransition::Claimed, RunTransition::Parked(WaitReason::Approval)];
    for (events, takes_steering, situation) in [
        (&[][..], true, S::CannotSteer),
        (&[RunTransition::Claimed], true, S::CanSteer),
        (&[RunTransition::Claimed], false, S::CannotSteer),
        (&[RunTransition::Claimed, RunTransition::Requeued], true, S::CanSteer),
        (&approval, true, S::CanSteer),
        (&question, true, S::WaitingForInput),
        (&[RunTransition::Cancelled], true, S::Closed),
    ] {
        assert_eq!(InputTargetState::of(after(events), 0, takes_steering), situation, "{events:?}");
    }
}

#[test]
fn g29_too_many_messages_give_way_as_the_policy_says() {
    let settings = |drop| InputQueueSettings { cap: 3, drop, ..InputQueueSettings::default() };
    let oldest = |count, summarize| OverflowDecision::DropOldest { count, summarize };
    for (drop, pending, overflow) in [
        (OverflowPolicy::DropOldest, 2, OverflowDecision::Accept),
        (OverflowPolicy::RejectNew, 2, OverflowDecision::Accept),
        (OverflowPolicy::Summarize, 0, OverflowDecision::Accept),
        (OverflowPolicy::DropOldest, 3, oldest(1, false)),
        (OverflowPolicy::DropOldest, 5, oldest(3, false)),
        (OverflowPolicy::Summarize, 3, oldest(1, true)),
        (OverflowPolicy::RejectNew, 3, OverflowDecision::Reject),
        (OverflowPolicy::RejectNew, usize::MAX, OverflowDecision::Reject),
        (OverflowPolicy::DropOldest, usize::MAX, oldest(usize::MAX - 2, false)),
    ] {
        assert_eq!(settings(drop).overflow(pending), overflow, "{drop} {pending}");
    }
}

#[test]
fn never_more_wait_than_the_cap_says() {
    for cap in 1..30 {
        for &drop in OverflowPolicy::ALL {
            let settings = InputQueueSettings { cap, drop, ..InputQueueSettings::default() };
            let mut pending: usize = 0;
            for _ in 0..100 {
                pending = match settings.overflow(pending) {
                    OverflowDecision::Accept => pending + 1,
                    OverflowDecision::Reject => pending,
                    OverflowDecision::DropOldest { count, .. } => pending + 1 - count,
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
        assert_eq!(InputQueueSettings::default().due(mode, now).as_millis(), 1000 + wait);
    }
}

#[test]
fn the_strongest_layer_that_says_something_wins() {
    let global = InputQueueOverride { mode: Some(M::Collect), cap: Some(5), ..Default::default() };
    let channel = InputQueueOverride { cap: Some(7), debounce_ms: Some(50), ..Default::default() };
    let call = InputQueueOverride { mode: Some(M::Interrupt), ..Default::default() };
    let settings = InputQueueSettings::default().with(&[global, channel, call]);
    assert_eq!((settings.mode, settings.cap), (M::Interrupt, 7));
    assert_eq!(settings.debounce, Duration::from_millis(50));
    assert_eq!(settings.drop, OverflowPolicy::Summarize);
}

#[test]
fn settings_out_of_range_are_refused_with_a_place() {
    for (layer, path) in [
        (InputQueueOverride { cap: Some(0), ..Default::default() }, "queue.cap"),
        (InputQueueOverride { cap: Some(1001), ..Default::default() }, "queue.cap"),
        (
            InputQueueOverride { debounce_ms: Some(60_001), ..Default::default() },
            "queue.debounce_ms",
        ),
    ] {
        let error = InputQueueSettings::default().with(&[layer]).validate().unwrap_err();
        assert!(error.to_string().starts_with(path), "{error}");
    }
    assert_eq!(InputQueueSettings::default().validate(), Ok(()));
}
