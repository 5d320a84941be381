//! Every state of a run against every event.

use super::*;
use crate::lifecycle::tests::{check_machine, reachable};

fn events() -> Vec<RunTransition> {
    let mut events: Vec<_> = WaitReason::ALL.iter().copied().map(RunTransition::Parked).collect();
    events.extend([
        RunTransition::Claimed,
        RunTransition::Woken,
        RunTransition::Requeued,
        RunTransition::Interrupted,
        RunTransition::Succeeded,
        RunTransition::Failed,
        RunTransition::TimedOut,
        RunTransition::Cancelled,
    ]);
    events
}

/// Every state that a row may hold.
fn states() -> Vec<RunState> {
    let mut states = Vec::new();
    let reasons: Vec<_> =
        WaitReason::ALL.iter().copied().map(Some).chain(std::iter::once(None)).collect();
    for &status in RunStatus::ALL {
        for &phase in RunPhase::ALL {
            for &parked_for in &reasons {
                for holds in [false, true] {
                    states.extend(RunState::from_row(status, phase, parked_for, holds));
                }
            }
        }
    }
    states
}

fn after(events: &[RunTransition]) -> RunState {
    events.iter().fold(RunState::ACCEPTED, |state, event| state.apply(*event).unwrap())
}

#[test]
fn g47_the_machine_is_total_and_an_ended_run_never_changes() {
    check_machine(&states(), &events(), RunState::apply, RunState::is_terminal);
}

#[test]
fn exactly_the_reachable_states_can_be_read_from_a_row() {
    let reached = reachable(RunState::ACCEPTED, &events(), RunState::apply);
    let sound: std::collections::HashSet<_> = states().into_iter().collect();
    assert_eq!(reached, sound);
    for state in reached {
        let row = (state.status(), state.phase(), state.wait_reason(), state.holds_session());
        assert_eq!(RunState::from_row(row.0, row.1, row.2, row.3), Some(state));
    }
}

#[test]
fn impossible_rows_are_refused() {
    use RunPhase as P;
    use RunStatus as S;
    use WaitReason as F;
    for (status, phase, parked_for, holds) in [
        (S::Accepted, P::Leased, None, true),
        (S::Running, P::Leased, None, false),
        (S::Running, P::Leased, Some(F::Child), true),
        (S::Running, P::Parked, None, true),
        (S::Running, P::Parked, Some(F::Question), true),
        (S::Accepted, P::Parked, Some(F::Child), false),
        (S::Running, P::Done, None, false),
        (S::Ok, P::Done, None, true),
        (S::Ok, P::Queued, None, false),
        (S::Cancelled, P::Parked, Some(F::Approval), false),
    ] {
        assert_eq!(RunState::from_row(status, phase, parked_for, holds), None, "{status} {phase}");
    }
}

#[test]
fn status_goes_the_way_of_the_spec() {
    use RunTransition as E;
    for (events, status, phase) in [
        (&[][..], RunStatus::Accepted, RunPhase::Queued),
        (&[E::Claimed], RunStatus::Running, RunPhase::Leased),
        (&[E::Claimed, E::Requeued], RunStatus::Running, RunPhase::Queued),
        (&[E::Claimed, E::Interrupted], RunStatus::Accepted, RunPhase::Queued),
        (&[E::Claimed, E::Parked(WaitReason::Child)], RunStatus::Running, RunPhase::Parked),
        (&[E::Parked(WaitReason::Approval)], RunStatus::Accepted, RunPhase::Parked),
        (&[E::Parked(WaitReason::Approval), E::Woken], RunStatus::Accepted, RunPhase::Queued),
        (&[E::Claimed, E::Succeeded], RunStatus::Ok, RunPhase::Done),
        (&[E::Claimed, E::Failed], RunStatus::Error, RunPhase::Done),
        (&[E::TimedOut], RunStatus::Timeout, RunPhase::Done),
        (&[E::Cancelled], RunStatus::Cancelled, RunPhase::Done),
    ] {
        let state = after(events);
        assert_eq!((state.status(), state.phase()), (status, phase), "{events:?}");
    }
}

#[test]
fn only_a_worker_ends_a_run_well() {
    for state in states() {
        let succeeds = state.apply(RunTransition::Succeeded).is_ok();
        assert_eq!(succeeds, state.phase() == RunPhase::Leased, "{state:?}");
    }
}

#[test]
fn g36_g40_what_is_queued_or_parked_can_be_cancelled_and_can_time_out() {
    for state in states().into_iter().filter(|state| !state.is_terminal()) {
        for event in [RunTransition::Cancelled, RunTransition::TimedOut, RunTransition::Failed] {
            assert!(state.apply(event).unwrap().is_terminal(), "{state:?}");
        }
    }
    let ended = after(&[RunTransition::Cancelled]);
    let again =
        crate::lifecycle::RequestError::from(ended.apply(RunTransition::Cancelled).unwrap_err());
    assert_eq!(again.code(), "already_terminal");
}

#[test]
fn a_tool_approval_holds_the_session_and_a_question_frees_it() {
    for (why, holds) in [
        (WaitReason::Approval, true),
        (WaitReason::Child, true),
        (WaitReason::Budget, true),
        (WaitReason::Question, false),
        (WaitReason::Operator, false),
    ] {
        let parked = after(&[RunTransition::Claimed, RunTransition::Parked(why)]);
        assert_eq!(parked.holds_session(), holds, "{why}");
        let woken = parked.apply(RunTransition::Woken).unwrap();
        assert_eq!(woken.holds_session(), holds, "a run that held it re-enters with it: {why}");
    }
}

#[test]
fn a_run_in_the_middle_of_a_turn_keeps_its_session_while_it_is_queued() {
    assert!(!RunState::ACCEPTED.holds_session());
    assert!(after(&[RunTransition::Claimed, RunTransition::Requeued]).holds_session());
    assert!(after(&[RunTransition::Claimed, RunTransition::Interrupted]).holds_session());
    let before_start = after(&[RunTransition::Parked(WaitReason::Approval)]);
    assert!(!before_start.holds_session(), "what never began holds nothing");
}

#[test]
fn every_ending_has_its_event() {
    for &status in RunStatus::ALL {
        let event = RunTransition::for_terminal_status(status);
        assert_eq!(event.is_some(), status.is_terminal());
        if let Some(event) = event {
            assert_eq!(after(&[RunTransition::Claimed, event]).status(), status);
        }
    }
}
