//! The fixed consequences of each outcome.

use super::*;

use OutcomeCode as O;
use RetryClass as R;

#[test]
fn every_code_has_its_fixed_retry_class() {
    for (code, class) in [
        (O::ProviderOverloaded, R::Backoff),
        (O::ProviderRateLimited, R::RetryAfter),
        (O::ProviderAuth, R::Failover),
        (O::ProviderBadRequest, R::Never),
        (O::ContextOverflow, R::CompactContext),
        (O::ToolError, R::Never),
        (O::ToolTimeout, R::Never),
        (O::SandboxStart, R::Backoff),
        (O::WorkerLost, R::Resume),
        (O::Fenced, R::Never),
        (O::DeadlineExceeded, R::Never),
        (O::BudgetExceeded, R::Never),
        (O::PolicyDenied, R::Never),
        (O::ApprovalDenied, R::Never),
        (O::ApprovalExpired, R::Never),
        (O::CrashLoop, R::Never),
        (O::Internal, R::Backoff),
    ] {
        assert_eq!(code.retry_class(), class, "{code}");
    }
    assert_eq!(O::ALL.len(), 20);
}

#[test]
fn a_cancellation_is_never_tried_again_and_is_no_error() {
    let cancelled: Vec<_> = O::ALL.iter().filter(|code| code.is_cancellation()).collect();
    assert_eq!(cancelled.len(), 3);
    for code in cancelled {
        assert_eq!(code.retry_class(), R::Never);
        assert_eq!(code.run_status(), Some(RunStatus::Cancelled));
        assert_eq!(code.attempt_status(), AttemptStatus::Cancelled);
        assert_eq!(code.breaker_signal(), BreakerSignal::Ignored);
    }
}

#[test]
fn every_code_ends_a_run_in_an_end_but_a_fenced_attempt_ends_no_run() {
    for &code in O::ALL {
        match code.run_status() {
            Some(status) => assert!(status.is_terminal() && status != RunStatus::Ok, "{code}"),
            None => assert_eq!(code, O::Fenced),
        }
        let open = [AttemptStatus::Pending, AttemptStatus::Blocked, AttemptStatus::Running];
        assert!(!open.contains(&code.attempt_status()), "{code}");
        assert_ne!(code.attempt_status(), AttemptStatus::Ok);
    }
    assert_eq!(O::DeadlineExceeded.run_status(), Some(RunStatus::Timeout));
    assert_eq!(O::ToolTimeout.run_status(), Some(RunStatus::Error), "not the run's own time");
}

#[test]
fn only_failures_to_run_count_for_the_breaker() {
    let counted: Vec<_> =
        O::ALL.iter().filter(|code| code.breaker_signal() == BreakerSignal::Failure).collect();
    assert_eq!(counted, [&O::SandboxStart, &O::WorkerLost]);
}

#[test]
fn every_kind_of_error_has_an_outcome() {
    use ErrorKind as K;
    use FailureSource as S;
    for (source, kind, code) in [
        (S::Model, K::RateLimited, O::ProviderRateLimited),
        (S::Model, K::Unavailable, O::ProviderOverloaded),
        (S::Model, K::Timeout, O::ProviderOverloaded),
        (S::Model, K::Malformed, O::ProviderOverloaded),
        (S::Model, K::Unauthenticated, O::ProviderAuth),
        (S::Model, K::Exhausted, O::ProviderAuth),
        (S::Model, K::Invalid, O::ProviderBadRequest),
        (S::Tool, K::Timeout, O::ToolTimeout),
        (S::Tool, K::Denied, O::ToolError),
        (S::Tool, K::Unavailable, O::ToolError),
        (S::Sandbox, K::Timeout, O::SandboxStart),
        (S::Engine, K::Exhausted, O::BudgetExceeded),
        (S::Engine, K::Timeout, O::DeadlineExceeded),
        (S::Engine, K::Denied, O::PolicyDenied),
    ] {
        assert_eq!(O::of_kind(kind, source), code, "{source} {kind}");
    }
    for &source in S::ALL {
        assert_eq!(O::of_kind(K::Cancelled, source), O::CancelledByUser);
        assert_eq!(O::of_kind(K::Bug, source), O::Internal);
    }
}

#[test]
fn a_stable_code_may_say_more_than_the_kind() {
    let error = ErrorInfo::new(ErrorKind::Invalid, "context_length", "too long");
    assert_eq!(O::of(&error, FailureSource::Model), O::ContextOverflow);
    assert_eq!(O::of(&error, FailureSource::Tool), O::ToolError, "a tool cannot borrow it");
}
