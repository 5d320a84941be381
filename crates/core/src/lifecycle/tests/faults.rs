//! Faults of the reference (A.16 of the specification) that pure rules must not repeat, one test each.

use std::collections::HashSet;
use std::time::Duration;

use crate::command::*;
use crate::lifecycle::*;
use crate::recovery::*;
use crate::scheduling::*;
use crate::{Env, ErrorInfo, ErrorKind, Timestamp};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

#[test]
fn a16_01_waiting_for_capacity_burns_nothing() {
    let breaker = ClassBreaker::default();
    for second in 0..8 {
        assert_eq!(breaker.admit(1, 1, at(second)), Admission::Full);
    }
    assert_eq!(breaker, ClassBreaker::default());
}

#[test]
fn a16_02_a_target_of_zero_is_paused_and_an_open_breaker_starts_nothing() {
    for running in [0, 1, 100] {
        assert_eq!(ClassBreaker::default().admit(0, running, at(0)), Admission::Paused);
    }
    let open = ClassBreaker::from_row(vec![at(0); 5], Some(at(60)));
    for second in 0..60 {
        assert_eq!(open.admit(0, 0, at(second)), Admission::Paused);
        assert_eq!(open.admit(1000, 0, at(second)), Admission::Open { until: at(60) });
    }
    assert_eq!(open.admit(0, 0, at(60)), Admission::Paused, "not even a probe");
}

#[test]
fn a16_03_cancelled_attempts_do_not_count_and_failures_pass() {
    let mut breaker = ClassBreaker::default();
    let harmless =
        OutcomeCode::ALL.iter().filter(|code| code.breaker_signal() != BreakerSignal::Failure);
    for (second, code) in (0..).zip(harmless.cycle().take(1000)) {
        breaker = breaker.after_attempt(at(second), Some(*code), at(second));
        assert_eq!(breaker, ClassBreaker::default(), "{code}");
    }
    for minutes in 0..100 {
        let now = at(minutes * 60 * 3);
        breaker = breaker.after_attempt(now, Some(OutcomeCode::SandboxStart), now);
        assert_ne!(breaker.health(now), ClassHealth::Degraded, "four in ten minutes are not five");
    }
}

#[test]
fn a16_05_words_of_an_error_do_not_make_its_outcome() {
    let words =
        ["timeout", "timed out", "cancelled by user", "context canceled", "rate limit", "ok"];
    for &kind in &ErrorKind::ALL {
        for &source in FailureSource::ALL {
            let outcomes: HashSet<_> = words
                .iter()
                .map(|text| OutcomeCode::of(&ErrorInfo::new(kind, "some_code", *text), source))
                .collect();
            assert_eq!(outcomes.len(), 1, "{kind} {source}");
        }
    }
    let shouting = ErrorInfo::new(ErrorKind::Unavailable, "http", "timeout: run cancelled");
    let outcome = OutcomeCode::of(&shouting, FailureSource::Tool);
    assert_eq!(outcome.run_status(), Some(RunStatus::Error));
}

#[test]
fn a16_08_a_blocked_attempt_has_a_way_on_and_its_question_always_ends() {
    let run = RunState::ACCEPTED.apply(RunTransition::Parked(WaitReason::Approval)).unwrap();
    let started =
        run.apply(RunTransition::Woken).and_then(|run| run.apply(RunTransition::Claimed)).unwrap();
    assert_eq!(started.phase(), RunPhase::Leased);
    for &kind in ApprovalKind::ALL {
        assert!(kind.accepts(ApprovalTransition::Expire), "{kind}");
        assert!(kind.expiry(true, Some(Duration::MAX)) < Duration::MAX, "{kind}");
    }
}

#[test]
fn a16_12_a_command_never_lands_on_another_agents_task() {
    let command = TaskRequest { agent: Some("a".into()), ..TaskRequest::text("hi") };
    assert!(command.is_follow_up_of("a", false) && !command.is_follow_up_of("b", false));
}

#[test]
fn a16_13_a_retry_waits_longer_each_time_spread_and_only_for_what_may_pass() {
    let policy = RetryPolicy { max_attempts: 10, ..RetryPolicy::default() };
    let longest: Vec<_> = (1..10).map(|n| policy.next_delay(n, None, 1.0).unwrap()).collect();
    assert!(longest.windows(2).all(|pair| pair[0] < pair[1] || pair[1] == policy.cap));
    let env = Env::simulated(13);
    let spread: HashSet<_> =
        (0..50).map(|_| policy.next_delay(5, None, env.random_unit())).collect();
    assert!(spread.len() > 40, "no herd comes back at once");
    for &code in OutcomeCode::ALL {
        if code.is_cancellation() || code.retry_class() == RetryClass::Never {
            assert!(!policy.retries(code), "{code}");
        }
    }
    let resume = OutcomeCode::WorkerLost.retry_class();
    assert_eq!(
        resume,
        RetryClass::Resume,
        "a lost worker goes on where it was, not from the start"
    );
}
