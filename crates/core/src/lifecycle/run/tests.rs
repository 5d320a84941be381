//! Every state of a run against every event.

use super::*;
use crate::lifecycle::tests::{check_machine, reachable};

fn events() -> Vec<RunEvent> {
    let mut events: Vec<_> = ParkedFor::ALL.iter().copied().map(RunEvent::Parked).collect();
    events.extend([
        RunEvent::Claimed,
        RunEvent::Woken,
        RunEvent::Requeued,
        RunEvent::Interrupted,
        RunEvent::Succeeded,
        RunEvent::Failed,
        RunEvent::TimedOut,
        RunEvent::Cancelled,
    ]);
    events
}

/// Every state that a row may hold.
fn states() -> Vec<RunState> {
    let mut states = Vec::new();
    let reasons: Vec<_> =
        ParkedFor::ALL.iter().copied().map(Some).chain(std::iter::once(None)).collect();
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

fn after(events: &[RunEvent]) -> RunState {
    events.iter().fold(RunState::ACCEPTED, |state, event| state.next(*event).unwrap())
}

#[test]
fn g47_the_machine_is_total_and_an_ended_run_never_changes() {
    check_machine(&states(), &events(), RunState::next, RunState::is_terminal);
}

#[test]
fn exactly_the_reachable_states_can_be_read_from_a_row() {
    let reached = reachable(RunState::ACCEPTED, &events(), RunState::next);
    let sound: std::collections::HashSet<_> = states().into_iter().collect();
    assert_eq!(reached, sound);
    for state in reached {
        let row = (state.status(), state.phase(), state.parked_for(), state.holds_session());
        assert_eq!(RunState::from_row(row.0, row.1, row.2, row.3), Some(state));
    }
}

#[test]
fn impossible_rows_are_refused() {
    use ParkedFor as F;
    use RunPhase as P;
    use RunStatus as S;
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
    use RunEvent as E;
    for (events, status, phase) in [
        (&[][..], RunStatus::Accepted, RunPhase::Queued),
        (&[E::Claimed], RunStatus::Running, RunPhase::Leased),
        (&[E::Claimed, E::Requeued], RunStatus::Running, RunPhase::Queued),
        (&[E::Claimed, E::Interrupted], RunStatus::Accepted, RunPhase::Queued),
        (&[E::Claimed, E::Parked(ParkedFor::Child)], RunStatus::Running, RunPhase::Parked),
        (&[E::Parked(ParkedFor::Approval)], RunStatus::Accepted, RunPhase::Parked),
        (&[E::Parked(ParkedFor::Approval), E::Woken], RunStatus::Accepted, RunPhase::Queued),
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
        let succeeds = state.next(RunEvent::Succeeded).is_ok();
        assert_eq!(succeeds, state.phase() == RunPhase::Leased, "{state:?}");
    }
}

#[test]
fn g36_g40_what_is_queued_or_parked_can_be_cancelled_and_can_time_out() {
    for state in states().into_iter().filter(|state| !state.is_terminal()) {
        for event in [RunEvent::Cancelled, RunEvent::TimedOut, RunEvent::Failed] {
            assert!(state.next(event).unwrap().is_terminal(), "{state:?}");
        }
    }
    let ended = after(&[RunEvent::Cancelled]);
    let again = crate::lifecycle::WorkError::from(ended.next(RunEvent::Cancelled).unwrap_err());
    assert_eq!(again.code(), "already_terminal");
}

#[test]
fn a_tool_approval_holds_the_session_and_a_question_frees_it() {
    for (why, holds) in [
        (ParkedFor::Approval, true),
        (ParkedFor::Child, true),
        (ParkedFor::Budget, true),
        (ParkedFor::Question, false),
        (ParkedFor::Operator, false),
    ] {
        let parked = after(&[RunEvent::Claimed, RunEvent::Parked(why)]);
        assert_eq!(parked.holds_session(), holds, "{why}");
        let woken = parked.next(RunEvent::Woken).unwrap();
        assert_eq!(woken.holds_session(), holds, "a run that held it re-enters with it: {why}");
    }
}

#[test]
fn a_run_in_the_middle_of_a_turn_keeps_its_session_while_it_is_queued() {
    assert!(!RunState::ACCEPTED.holds_session());
    assert!(after(&[RunEvent::Claimed, RunEvent::Requeued]).holds_session());
    assert!(after(&[RunEvent::Claimed, RunEvent::Interrupted]).holds_session());
    let before_start = after(&[RunEvent::Parked(ParkedFor::Approval)]);
    assert!(!before_start.holds_session(), "what never began holds nothing");
}

#[test]
fn every_ending_has_its_event() {
    for &status in RunStatus::ALL {
        let event = RunEvent::ending(status);
        assert_eq!(event.is_some(), status.is_terminal());
        if let Some(event) = event {
            assert_eq!(after(&[RunEvent::Claimed, event]).status(), status);
        }
    }
}
