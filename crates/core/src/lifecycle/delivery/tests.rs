//! Answers on their way out.

use super::*;
use crate::Env;
use crate::lifecycle::tests::{check_machine, reachable};

use DeliveryState as S;
use DeliveryTransition as E;

#[test]
fn the_machine_is_total_and_ends_are_ends() {
    check_machine(S::ALL, E::ALL, S::apply, S::is_terminal);
    assert_eq!(reachable(S::Pending, E::ALL, S::apply).len(), S::ALL.len());
}

#[test]
fn a_delivery_goes_the_way_of_the_spec() {
    for (from, event, to) in [
        (S::Pending, E::Sending, S::Sending),
        (S::Sending, E::Delivered, S::Delivered),
        (S::Sending, E::FailedTransiently, S::Pending),
        (S::Sending, E::Failed, S::Failed),
        (S::Sending, E::Lost, S::Unknown),
        (S::Sending, E::Resend, S::Pending),
        (S::Unknown, E::Delivered, S::Delivered),
        (S::Unknown, E::Resend, S::Pending),
        (S::Pending, E::Abandoned, S::Blocked),
        (S::Blocked, E::Retried, S::Pending),
        (S::Blocked, E::Dismissed, S::Dismissed),
        (S::Unknown, E::Retried, S::Pending),
        (S::Failed, E::Dismissed, S::Dismissed),
    ] {
        assert_eq!(from.apply(event), Ok(to), "{from} {event}");
    }
    assert!(S::Unknown.apply(E::Sending).is_err(), "nothing unknown is sent again silently");
    assert!(S::Delivered.apply(E::Retried).is_err());
}

#[test]
fn g49_a_lost_send_is_repeated_only_where_a_repeat_is_known() {
    for (accepts_key, can_lookup, action, class) in [
        (true, true, UncertainSendAction::Resend, EffectClass::Keyed),
        (true, false, UncertainSendAction::Resend, EffectClass::Keyed),
        (false, true, UncertainSendAction::LookUp, EffectClass::Provable),
        (false, false, UncertainSendAction::MarkUnknown, EffectClass::Opaque),
    ] {
        let abilities = ChannelCapabilities { accepts_key, can_lookup };
        assert_eq!(abilities.after_sender_loss(), action);
        assert_eq!(abilities.effect_class(), class);
    }
}

#[test]
fn g50_waits_grow_from_15_s_to_5_min_for_half_an_hour_and_then_it_is_given_up() {
    let start = Timestamp::from_millis(0);
    let mut waits = Vec::new();
    let (mut now, mut tries) = (start, 1);
    while let Some(next) = next_delivery_at(tries, now, delivery_deadline(start), 0.0) {
        waits.push(next.since(now).as_secs());
        (now, tries) = (next, tries + 1);
    }
    assert_eq!(waits, [15, 30, 60, 120, 240, 300, 300, 300, 300]);
    assert!(now.since(start) < DELIVERY_RETRY_WINDOW);
}

#[test]
fn waits_are_spread_and_stay_within_their_bounds() {
    let env = Env::simulated(11);
    let now = Timestamp::from_millis(0);
    let never = Timestamp::from_millis(i64::MAX);
    for tries in [0, 1, 2, 3, 5, 9, 40, u32::MAX] {
        for _ in 0..200 {
            let wait = next_delivery_at(tries, now, never, env.random_unit()).unwrap().since(now);
            assert!(
                (DELIVERY_RETRY_DELAY..=DELIVERY_RETRY_DELAY_MAX).contains(&wait),
                "{tries}: {wait:?}"
            );
        }
    }
    assert_ne!(next_delivery_at(1, now, never, 0.0), next_delivery_at(1, now, never, 1.0));
}
