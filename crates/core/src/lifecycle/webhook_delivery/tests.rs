//! Events on their way to a webhook.

use super::*;
use crate::Env;
use crate::lifecycle::tests::{check_machine, reachable};

use PostEvent as E;
use PostState as S;

fn until(now: Timestamp, give_up_at: Timestamp) -> RetryWindow {
    RetryWindow { now, give_up_at }
}

#[test]
fn the_machine_is_total_and_every_state_can_be_reached() {
    // What is settled can be sent again, so nothing ends for good.
    check_machine(S::ALL, E::ALL, S::next, |_| false);
    assert_eq!(reachable(S::Pending, E::ALL, S::next).len(), S::ALL.len());
}

#[test]
fn a_post_goes_on_until_it_is_settled() {
    for (from, event, to) in [
        (S::Pending, E::Sending, S::Sending),
        (S::Sending, E::Sending, S::Sending),
        (S::Sending, E::Delivered, S::Delivered),
        (S::Sending, E::FailedForNow, S::Pending),
        (S::Sending, E::GivenUp, S::Failed),
        (S::Delivered, E::Resent, S::Pending),
        (S::Failed, E::Resent, S::Pending),
    ] {
        assert_eq!(from.next(event), Ok(to), "{from} {event}");
    }
    assert!(S::Delivered.next(E::Sending).is_err(), "nothing is sent again by itself");
    assert!(S::Sending.next(E::Resent).is_err(), "it is being sent");
}

#[test]
fn waits_double_from_5_s_to_1_h_for_a_day() {
    let start = Timestamp::from_millis(0);
    let mut waits = Vec::new();
    let (mut now, mut tries) = (start, 1);
    while let Some(next) = next_post(tries, None, until(now, post_gives_up_at(start)), 0.0) {
        waits.push(next.since(now).as_secs());
        (now, tries) = (next, tries + 1);
    }
    assert_eq!(waits[..11], [5, 10, 20, 40, 80, 160, 320, 640, 1280, 2560, 3600]);
    assert!(waits[11..].iter().all(|wait| *wait == 3600));
    assert!(now.since(start) < POST_GIVE_UP && now.since(start) > POST_GIVE_UP - POST_DELAY_MAX);
}

#[test]
fn waits_are_spread_within_their_bounds_and_a_longer_wish_is_honoured() {
    let env = Env::simulated(5);
    let now = Timestamp::from_millis(0);
    let never = Timestamp::from_millis(i64::MAX);
    for tries in [0, 1, 2, 5, 11, 40, u32::MAX] {
        for _ in 0..200 {
            let next = next_post(tries, None, until(now, never), env.random_unit()).unwrap();
            let wait = next.since(now);
            assert!((POST_DELAY..=POST_DELAY_MAX).contains(&wait), "{tries}: {wait:?}");
        }
    }
    assert_ne!(
        next_post(1, None, until(now, never), 0.0),
        next_post(1, None, until(now, never), 1.0)
    );
    let asked = Duration::from_secs(7200);
    assert_eq!(next_post(1, Some(asked), until(now, never), 0.5), Some(now.after(asked)));
    let sooner = Some(Duration::from_secs(1));
    assert_eq!(next_post(1, sooner, until(now, never), 0.0), Some(now.after(POST_DELAY)));
    let day = Some(Duration::from_secs(86_400));
    assert_eq!(
        next_post(1, day, until(now, post_gives_up_at(now)), 0.0),
        None,
        "it asks for too much"
    );
}
