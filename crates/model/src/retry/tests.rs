use super::*;
use crate::ModelErrorClass as Class;

fn decide(error: &ModelError, retries: u32, left_ms: Option<u64>) -> Option<u128> {
    RetryPolicy::default()
        .next_delay(error, retries, left_ms.map(Duration::from_millis), 1.0)
        .map(|wait| wait.as_millis())
}

#[test]
fn only_what_may_pass_is_tried_again() {
    for (class, again) in [
        (Class::RateLimited, true),
        (Class::Overloaded, true),
        (Class::Transport, true),
        (Class::Timeout, true),
        (Class::StreamTruncated, true),
        (Class::Auth, false),
        (Class::QuotaExceeded, false),
        (Class::ContextLength, false),
        (Class::ContentFilter, false),
        (Class::ModelNotFound, false),
        (Class::InvalidRequest, false),
        (Class::Malformed, false),
    ] {
        let error = ModelError::new(class, "x");
        assert_eq!(decide(&error, 0, None).is_some(), again, "{class:?}");
    }
}

#[test]
fn waits_double_up_to_the_cap_and_chance_spreads_them() {
    let error = ModelError::new(Class::Overloaded, "x");
    let waits: Vec<_> = (0..5).map(|retries| decide(&error, retries, None)).collect();
    assert_eq!(waits, [Some(500), Some(1000), Some(2000), Some(4000), None]);
    let patient = RetryPolicy { max_retries: 100, ..RetryPolicy::default() };
    let wait = |retries, chance| patient.next_delay(&error, retries, None, chance);
    assert_eq!(wait(60, 1.0), Some(Duration::from_secs(30)));
    assert_eq!(wait(3, 0.0), Some(Duration::ZERO));
    assert_eq!(wait(3, 0.5), Some(Duration::from_millis(2000)));
    assert_eq!(RetryPolicy::never().next_delay(&error, 0, None, 0.0), None);
}

#[test]
fn what_the_provider_asks_for_is_done_within_reason() {
    let asked = |millis| ModelError {
        retry_after: Some(Duration::from_millis(millis)),
        ..ModelError::new(Class::RateLimited, "x")
    };
    assert_eq!(decide(&asked(20_000), 0, None), Some(22_000));
    assert_eq!(decide(&asked(0), 0, None), Some(0));
    assert_eq!(decide(&asked(121_000), 0, None), None);
}

#[test]
fn nothing_waits_beyond_the_deadline() {
    let error = ModelError::new(Class::Overloaded, "x");
    assert_eq!(decide(&error, 0, Some(501)), Some(500));
    assert_eq!(decide(&error, 0, Some(500)), None);
    assert_eq!(decide(&error, 0, Some(0)), None);
}

#[test]
fn times_beyond_all_reason_do_not_panic() {
    let asked = |seconds| ModelError {
        retry_after: Some(Duration::from_secs(seconds)),
        ..ModelError::new(Class::RateLimited, "x")
    };
    assert_eq!(decide(&asked(18_000_000_000_000_000_000), 0, None), None);
    let endless = RetryPolicy {
        base: Duration::MAX,
        cap: Duration::MAX,
        retry_after_max: Duration::MAX,
        ..RetryPolicy::default()
    };
    assert_eq!(endless.next_delay(&asked(u64::MAX), 0, None, 1.0), Some(Duration::MAX));
    let error = ModelError::new(Class::Overloaded, "x");
    assert_eq!(endless.next_delay(&error, 3, None, 1.0), Some(Duration::MAX));
}
