//! Waits and bounds of another try.

use super::*;
use crate::Env;

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

#[test]
fn waits_double_up_to_the_cap_and_stop_at_the_last_attempt() {
    let policy = RetryPolicy { max_attempts: 20, jitter: Jitter::None, ..RetryPolicy::default() };
    let waits: Vec<_> = (1..20).map(|attempt| policy.next_delay(attempt, None, 0.5)).collect();
    assert_eq!(waits[..4], [Some(ms(1000)), Some(ms(2000)), Some(ms(4000)), Some(ms(8000))]);
    assert_eq!(waits[18], Some(RETRY_CAP));
    assert_eq!(policy.next_delay(20, None, 0.5), None);
    assert_eq!(RetryPolicy::never().next_delay(1, None, 0.5), None);
}

#[test]
fn full_jitter_spreads_from_nothing_to_the_whole_wait() {
    let policy = RetryPolicy { max_attempts: 9, ..RetryPolicy::default() };
    assert_eq!(policy.next_delay(3, None, 0.0), Some(Duration::ZERO));
    assert_eq!(policy.next_delay(3, None, 1.0), Some(ms(4000)));
    let env = Env::simulated(3);
    let waits: std::collections::HashSet<_> =
        (0..100).map(|_| policy.next_delay(8, None, env.random_unit()).unwrap()).collect();
    assert!(waits.len() > 90 && waits.iter().all(|wait| *wait <= ms(128_000)));
}

#[test]
fn what_the_other_side_asks_for_is_honoured_however_long() {
    let policy = RetryPolicy::default();
    let asked = Duration::from_secs(3600);
    for chance in [0.0, 0.3, 1.0] {
        let wait = policy.next_delay(1, Some(asked), chance).unwrap();
        assert!((asked..=asked.mul_f64(1.1)).contains(&wait), "{wait:?}");
    }
    assert_eq!(policy.next_delay(3, Some(asked), 0.0), None, "but not without end");
}

#[test]
fn no_number_makes_it_panic() {
    let policies = [
        RetryPolicy { delay: Duration::MAX, cap: Duration::MAX, ..RetryPolicy::default() },
        RetryPolicy { factor: u32::MAX, max_attempts: u32::MAX, ..RetryPolicy::default() },
    ];
    for policy in policies {
        for attempt in [0, 1, 2, 31, 32, u32::MAX] {
            for chance in [-1.0, 0.0, 0.5, 1.0, 2.0, f64::NAN, f64::INFINITY] {
                for asked in [None, Some(Duration::ZERO), Some(Duration::MAX)] {
                    let _wait = policy.next_delay(attempt, asked, chance);
                }
            }
        }
    }
}

#[test]
fn g41_only_listed_and_passing_outcomes_are_tried_again() {
    let listed = RetryPolicy {
        retry_on: Some([OutcomeCode::SandboxStart].into()),
        ..RetryPolicy::default()
    };
    for &code in OutcomeCode::ALL {
        let passing = code.retry_class() != RetryClass::Never;
        assert_eq!(RetryPolicy::default().retries(code), passing, "{code}");
        assert_eq!(listed.retries(code), code == OutcomeCode::SandboxStart);
    }
}

#[test]
fn what_is_out_of_range_is_refused_with_a_place_and_a_remedy() {
    let policy = RetryPolicy::default;
    for (policy, path) in [
        (RetryPolicy { max_attempts: 0, ..policy() }, "policy.retry.max_attempts"),
        (RetryPolicy { max_attempts: 21, ..policy() }, "policy.retry.max_attempts"),
        (RetryPolicy { factor: 0, ..policy() }, "policy.retry.factor"),
        (RetryPolicy { factor: 11, ..policy() }, "policy.retry.factor"),
        (
            RetryPolicy { retry_on: Some([OutcomeCode::CancelledByUser].into()), ..policy() },
            "policy.retry.retry_on",
        ),
    ] {
        let error = policy.validate().unwrap_err();
        assert_eq!((error.path.as_str(), error.code()), (path, "policy_invalid"));
        assert!(!error.fix.is_empty());
    }
}

#[test]
fn the_normal_form_is_valid_and_stays_as_it_is() {
    for max_attempts in [0, 1, 3, 21, u32::MAX] {
        for delay in [Duration::ZERO, ms(1), Duration::MAX] {
            for factor in [0, 2, u32::MAX] {
                let policy = RetryPolicy { max_attempts, delay, factor, ..RetryPolicy::default() };
                let normal = policy.normalized();
                assert_eq!(normal.validate(), Ok(()));
                assert!(normal.delay <= normal.cap && normal.cap <= RETRY_CAP);
                assert_eq!(normal.clone().normalized(), normal);
            }
        }
    }
    assert_eq!(RetryPolicy::default().normalized(), RetryPolicy::default());
    assert_eq!(RetryPolicy::default().max_attempts, 3);
}

#[test]
fn the_wire_has_milliseconds() {
    let text = serde_json::to_string(&RetryPolicy::default()).unwrap();
    assert_eq!(
        text,
        r#"{"max_attempts":3,"delay_ms":1000,"factor":2,"cap_ms":300000,"jitter":"full","pause_at_end":false}"#
    );
    assert_eq!(serde_json::from_str::<RetryPolicy>(&text).unwrap(), RetryPolicy::default());
}
