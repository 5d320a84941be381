//! The steps of the journal and the table of lost leases.

use super::*;
use crate::usage::limits::LEASE_TTL_DEFAULT;

use EffectClass as C;
use LeaseExpiryAction as A;
use StepKind as K;
use StepState as S;

fn open(kind: K, state: S, class: C) -> InFlightStep {
    InFlightStep { kind, state, class }
}

fn requeue(after: Duration, restricted: bool) -> A {
    A::Requeue { after, restricted }
}

#[test]
fn a_step_with_an_outcome_never_changes() {
    use StepTransition as E;
    for &event in E::ALL {
        assert!(S::sources(event).iter().all(|state| state.is_open()), "{event}");
    }
    assert_eq!(S::sources(E::Begun), [S::Planned, S::Started, S::Unknown]);
    assert_eq!(S::sources(E::WorkerLost), [S::Started]);
    assert_eq!(S::sources(E::Reset), [S::Started]);
}

#[test]
fn the_table_of_lost_leases() {
    let now = Duration::ZERO;
    let rows: &[(&[InFlightStep], A)] = &[
        (&[], A::REQUEUE_NOW),
        (&[open(K::ToolCall, S::Planned, C::Opaque)], A::REQUEUE_NOW),
        (&[open(K::ModelCall, S::Planned, C::Keyed)], A::REQUEUE_NOW),
        (&[open(K::ModelCall, S::Started, C::Keyed)], requeue(LEASE_TTL_DEFAULT, false)),
        (&[open(K::Compact, S::Started, C::Keyed)], requeue(LEASE_TTL_DEFAULT, false)),
        (&[open(K::ToolCall, S::Started, C::Pure)], requeue(LEASE_TTL_DEFAULT, false)),
        (&[open(K::ToolCall, S::Started, C::Idempotent)], requeue(LEASE_TTL_DEFAULT, false)),
        (&[open(K::ToolCall, S::Started, C::Keyed)], requeue(LEASE_TTL_DEFAULT, false)),
        (&[open(K::ToolCall, S::Started, C::Provable)], requeue(LEASE_TTL_DEFAULT, false)),
        (&[open(K::ToolCall, S::Started, C::Opaque)], requeue(LEASE_TTL_DEFAULT, true)),
        (&[open(K::ToolCall, S::Unknown, C::Opaque)], requeue(LEASE_TTL_DEFAULT, true)),
        (&[open(K::Deliver, S::Started, C::Opaque)], A::REQUEUE_NOW),
        (&[open(K::Spawn, S::Started, C::Transactional)], requeue(now, false)),
    ];
    for (steps, action) in rows {
        assert_eq!(
            on_lease_expired(steps, LostWorkerContext::default(), LEASE_TTL_DEFAULT),
            *action,
            "{steps:?}"
        );
    }
}

#[test]
fn an_opaque_tool_parks_or_fails_if_its_policy_says_so() {
    let steps = [open(K::ToolCall, S::Started, C::Opaque), open(K::ToolCall, S::Started, C::Pure)];
    for (on_unknown, action) in [
        (UnknownEffectPolicy::ReportToModel, requeue(LEASE_TTL_DEFAULT, true)),
        (UnknownEffectPolicy::AskPerson, A::Park),
        (UnknownEffectPolicy::FailRun, A::Fail),
    ] {
        let loss = LostWorkerContext { on_unknown, ..LostWorkerContext::default() };
        assert_eq!(on_lease_expired(&steps, loss, LEASE_TTL_DEFAULT), action);
        let turned = [steps[1], steps[0]];
        assert_eq!(
            on_lease_expired(&turned, loss, LEASE_TTL_DEFAULT),
            action,
            "the order does not count"
        );
    }
}

#[test]
fn an_owner_that_is_proven_dead_leaves_no_grace() {
    let loss = LostWorkerContext { confirmed_dead: true, ..LostWorkerContext::default() };
    for class in C::ALL {
        let steps = [open(K::ToolCall, S::Started, *class)];
        let restricted = *class == C::Opaque;
        assert_eq!(
            on_lease_expired(&steps, loss, LEASE_TTL_DEFAULT),
            requeue(Duration::ZERO, restricted)
        );
    }
}

#[test]
fn g37_a_run_that_was_to_be_cancelled_is_cancelled_whatever_is_open() {
    let loss =
        LostWorkerContext { cancel_requested: true, crashes: 99, ..LostWorkerContext::default() };
    for &kind in K::ALL {
        for &state in S::ALL {
            for &class in C::ALL {
                assert_eq!(
                    on_lease_expired(&[open(kind, state, class)], loss, LEASE_TTL_DEFAULT),
                    A::Cancel
                );
            }
        }
    }
}

#[test]
fn g12_the_fifth_crash_in_a_row_without_progress_is_a_loop() {
    let mut crashes = 0;
    for crash in 1..=CRASHES_MAX {
        let loss = LostWorkerContext { crashes, ..LostWorkerContext::default() };
        let action = on_lease_expired(&[], loss, LEASE_TTL_DEFAULT);
        let wanted = if crash == 5 { A::CrashLoop } else { A::REQUEUE_NOW };
        assert_eq!(action, wanted, "crash {crash}");
        crashes = loss.consecutive_crashes();
    }
    let progressed =
        LostWorkerContext { crashes: 4, progressed: true, ..LostWorkerContext::default() };
    assert_eq!(on_lease_expired(&[], progressed, LEASE_TTL_DEFAULT), A::REQUEUE_NOW);
    assert_eq!(progressed.consecutive_crashes(), 1, "this crash is the first of a new row");
}

#[test]
fn every_combination_has_an_answer_and_none_repeats_an_opaque_effect_freely() {
    for &kind in K::ALL {
        for &state in S::ALL {
            for &class in C::ALL {
                for &on_unknown in UnknownEffectPolicy::ALL {
                    let loss = LostWorkerContext { on_unknown, ..LostWorkerContext::default() };
                    let action =
                        on_lease_expired(&[open(kind, state, class)], loss, LEASE_TTL_DEFAULT);
                    let begun = matches!(state, S::Started | S::Unknown);
                    if kind == K::ToolCall && class == C::Opaque && begun {
                        assert!(!matches!(action, A::Requeue { restricted: false, .. }));
                    }
                }
            }
        }
    }
}

#[test]
fn a_kind_has_a_class_unless_a_tool_or_a_channel_says_it() {
    let open: Vec<_> = K::ALL.iter().filter(|kind| kind.own_class().is_none()).collect();
    assert_eq!(open, [&K::ToolCall, &K::Deliver]);
    assert_eq!(K::ModelCall.own_class(), Some(C::Keyed));
    assert_eq!(K::Spawn.own_class(), Some(C::Transactional));
}
