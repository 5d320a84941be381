//! Keys of classes and their breaker.

use std::collections::HashSet;

use super::*;
use crate::execution_policy::{
    CommandApproval, CommandPolicy, ExecutionHost, ExecutionPolicyPatch, RuntimeType,
    SandboxResources, WorkspaceAccess,
};
use crate::scheduling::RetryPolicy;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(seconds * 1000)
}

/// A breaker after failures to run at these seconds.
fn failed(seconds: &[i64]) -> ClassBreaker {
    seconds.iter().fold(ClassBreaker::default(), |breaker, second| {
        breaker.after_attempt(at(*second), Some(OutcomeCode::WorkerLost), at(*second))
    })
}

#[test]
fn everything_the_scheduler_sees_makes_another_class() {
    let key = |patch: ExecutionPolicyPatch| {
        ExecutionClassKey::new(
            &Namespace::default(),
            Some("a"),
            None,
            &patch.apply_to(&ExecutionPolicy::default()),
        )
    };
    let patch = ExecutionPolicyPatch::default;
    let keys = [
        key(patch()),
        key(ExecutionPolicyPatch { host: Some(ExecutionHost::Node), ..patch() }),
        key(ExecutionPolicyPatch { security: Some(CommandPolicy::Full), ..patch() }),
        key(ExecutionPolicyPatch { ask: Some(CommandApproval::Always), ..patch() }),
        key(ExecutionPolicyPatch { runtime_type: Some(RuntimeType::Runc), ..patch() }),
        key(ExecutionPolicyPatch { workspace_access: Some(WorkspaceAccess::Ro), ..patch() }),
        key(ExecutionPolicyPatch { network_enabled: Some(false), ..patch() }),
        key(ExecutionPolicyPatch { interactive: Some(true), ..patch() }),
        key(ExecutionPolicyPatch {
            resources: Some(SandboxResources { cpu: Some(1), ..SandboxResources::default() }),
            ..patch()
        }),
        ExecutionClassKey::new(
            &"other".parse().unwrap(),
            Some("a"),
            None,
            &ExecutionPolicy::default(),
        ),
        ExecutionClassKey::new(&Namespace::default(), Some("b"), None, &ExecutionPolicy::default()),
        ExecutionClassKey::new(&Namespace::default(), None, None, &ExecutionPolicy::default()),
        ExecutionClassKey::new(
            &Namespace::default(),
            Some("a"),
            Some("cron"),
            &ExecutionPolicy::default(),
        ),
    ];
    assert_eq!(keys.iter().collect::<HashSet<_>>().len(), keys.len());
    for key in &keys {
        assert!(key.as_str().starts_with("execclass_") && key.as_str().len() == 42, "{key}");
        assert_eq!(key.as_str().parse::<ExecutionClassKey>().as_ref(), Ok(key));
    }
}

#[test]
fn retry_and_unsaid_defaults_do_not_make_another_class() {
    let key = |policy: &ExecutionPolicy| {
        ExecutionClassKey::new(&Namespace::default(), Some("a"), None, policy)
    };
    let policy = ExecutionPolicy { retry: RetryPolicy::never(), ..ExecutionPolicy::default() };
    assert_eq!(key(&policy), key(&ExecutionPolicy::default()));
    let said =
        ExecutionPolicy { resources: policy.resources.resolved(), ..ExecutionPolicy::default() };
    assert_eq!(key(&said), key(&ExecutionPolicy::default()));
    assert!("execclass_".parse::<ExecutionClassKey>().is_err());
}

#[test]
fn five_failures_to_run_within_ten_minutes_open_the_breaker() {
    assert_eq!(failed(&[]).health(at(0)), ClassHealth::Healthy);
    assert_eq!(failed(&[0, 1]).health(at(2)), ClassHealth::Healthy);
    assert_eq!(failed(&[0, 1, 2]).health(at(3)), ClassHealth::Warning);
    assert_eq!(failed(&[0, 1, 2, 3]).health(at(4)), ClassHealth::Warning);
    let open = failed(&[0, 1, 2, 3, 4]);
    assert_eq!(open.health(at(5)), ClassHealth::Degraded);
    assert_eq!(open.admit(10, 0, at(5)), Admission::Open { until: at(64) });
    assert_eq!(
        failed(&[0, 200, 400, 599, 600]).health(at(601)),
        ClassHealth::Warning,
        "one is too old"
    );
    assert_eq!(failed(&[0, 1, 2]).health(at(700)), ClassHealth::Healthy, "they pass out of mind");
}

#[test]
fn one_probe_passes_and_its_success_closes_the_breaker() {
    let open = failed(&[0, 1, 2, 3, 4]);
    assert_eq!(open.admit(1, 1, at(64)), Admission::Full, "a probe needs a place too");
    let Admission::Probe(probing) = open.admit(1, 0, at(64)) else { panic!("a probe is due") };
    for second in 64..124 {
        let second_probe = probing.admit(10, 1, at(second));
        assert_eq!(second_probe, Admission::Open { until: at(124) }, "only one at a time");
    }
    let closed = probing.after_attempt(at(64), None, at(70));
    assert_eq!(closed, ClassBreaker::default());
    assert_eq!(closed.admit(10, 0, at(70)), Admission::Admit);
}

#[test]
fn a_probe_that_fails_keeps_the_breaker_open_and_one_that_is_lost_is_followed_by_another() {
    let open = failed(&[0, 1, 2, 3, 4]);
    let Admission::Probe(probing) = open.admit(1, 0, at(64)) else { panic!("a probe is due") };
    let failed_again =
        probing.clone().after_attempt(at(64), Some(OutcomeCode::SandboxStart), at(90));
    assert_eq!(failed_again.admit(1, 0, at(149)), Admission::Open { until: at(150) });
    assert!(matches!(failed_again.admit(1, 0, at(150)), Admission::Probe(_)));
    assert!(matches!(probing.admit(1, 0, at(124)), Admission::Probe(_)), "nobody ever reported");
}

#[test]
fn a_probe_that_ran_into_a_model_error_ran() {
    let open = failed(&[0, 1, 2, 3, 4]);
    let Admission::Probe(probing) = open.admit(1, 0, at(64)) else { panic!("a probe is due") };
    for code in [OutcomeCode::ToolError, OutcomeCode::ProviderOverloaded] {
        assert_eq!(
            probing.clone().after_attempt(at(64), Some(code), at(65)),
            ClassBreaker::default()
        );
    }
    let cancelled =
        probing.clone().after_attempt(at(64), Some(OutcomeCode::CancelledByUser), at(65));
    assert_eq!(cancelled, probing, "a cancelled probe says nothing");
}

#[test]
fn what_started_before_the_breaker_opened_does_not_close_it() {
    let open = failed(&[10, 11, 12, 13, 14]);
    assert_eq!(open.clone().after_attempt(at(1), None, at(20)), open);
}

#[test]
fn the_value_survives_its_row_and_stays_small() {
    let mut breaker = ClassBreaker::default();
    for second in 0..1000 {
        breaker = breaker.after_attempt(at(second), Some(OutcomeCode::WorkerLost), at(second));
        assert!(breaker.failures().len() <= CLASS_FAILURES_MAX);
        let row = (breaker.failures().to_vec(), breaker.probe_at());
        assert_eq!(ClassBreaker::from_row(row.0, row.1), breaker);
    }
}
