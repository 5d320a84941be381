//! Events on their way to a webhook.

use super::*;
use crate::Env;
use crate::lifecycle::tests::{check_machine, reachable};

use WebhookDeliveryState as S;
use WebhookDeliveryTransition as E;

fn until(now: Timestamp, give_up_at: Timestamp) -> RetryWindow {
    RetryWindow { now, deadline: give_up_at }
}

#[test]
fn the_machine_is_total_and_every_state_can_be_reached() {
    // What is settled can be sent again, so nothing ends for good.
    check_machine(S::ALL, E::ALL, S::apply, |_| false);
    assert_eq!(reachable(S::Pending, E::ALL, S::apply).len(), S::ALL.len());
}

#[test]
fn a_post_goes_on_until_it_is_settled() {
    for (from, event, to) in [
        (S::Pending, E::Sending, S::Sending),
        (S::Sending, E::Sending, S::Sending),
        (S::Sending, E::Delivered, S::Delivered),
        (S::Sending, E::FailedTransiently, S::Pending),
        (S::Sending, E::Abandoned, S::Failed),
        (S::Delivered, E::Resent, S::Pending),
        (S::Failed, E::Resent, S::Pending),
    ] {
        assert_eq!(from.apply(event), Ok(to), "{from} {event}");
    }
    assert!(S::Delivered.apply(E::Sending).is_err(), "nothing is sent again by itself");
    assert!(S::Sending.apply(E::Resent).is_err(), "it is being sent");
}

#[test]
fn waits_double_from_5_s_to_1_h_for_a_day() {
    let start = Timestamp::from_millis(0);
    let mut waits = Vec::new();
    let (mut now, mut tries) = (start, 1);
    while let Some(next) =
        next_webhook_attempt_at(tries, None, until(now, webhook_delivery_deadline(start)), 0.0)
    {
        waits.push(next.since(now).as_secs());
        (now, tries) = (next, tries + 1);
    }
    assert_eq!(waits[..11], [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600]);
    assert!(waits[11..].iter().all(|wait| *wait == 3600));
    assert!(
        now.since(start) < WEBHOOK_RETRY_WINDOW
            && now.since(start) > WEBHOOK_RETRY_WINDOW - WEBHOOK_RETRY_DELAY_MAX
    );
}

#[test]
fn waits_are_spread_within_their_bounds_and_a_longer_wish_is_honoured() {
    let env = Env::simulated(5);
    let now = Timestamp::from_millis(0);
    let never = Timestamp::from_millis(i64::MAX);
    for tries in [0, 1, 2, 5, 11, 40, u32::MAX] {
        for _ in 0..200 {
            let next =
                next_webhook_attempt_at(tries, None, until(now, never), env.random_unit()).unwrap();
            let wait = next.since(now);
            assert!(
                (WEBHOOK_RETRY_DELAY..=WEBHOOK_RETRY_DELAY_MAX).contains(&wait),
                "{tries}: {wait:?}"
            );
        }
    }
    assert_ne!(
        next_webhook_attempt_at(1, None, until(now, never), 0.0),
        next_webhook_attempt_at(1, None, until(now, never), 1.0)
    );
    let asked = Duration::from_secs(7200);
    assert_eq!(
        next_webhook_attempt_at(1, Some(asked), until(now, never), 0.5),
        Some(now.after(asked))
    );
    let sooner = Some(Duration::from_secs(1));
    assert_eq!(
        next_webhook_attempt_at(1, sooner, until(now, never), 0.0),
        Some(now.after(WEBHOOK_RETRY_DELAY))
    );
    let day = Some(Duration::from_secs(86_400));
    assert_eq!(
        next_webhook_attempt_at(1, day, until(now, webhook_delivery_deadline(now)), 0.0),
        None,
        "it asks for too much"
    );
}
