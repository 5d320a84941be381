//! The way of a message and the projection of a run.

use super::*;
use crate::lifecycle::{RunPhase, RunTransition};

use InputState as S;
use InputTransition as E;

#[test]
fn only_a_message_that_nobody_has_taken_can_leave_the_queue() {
    for &from in S::ALL {
        let pending = from == S::Pending;
        assert_eq!(from.apply(E::Superseded).ok(), pending.then_some(S::Superseded), "{from}");
        assert_eq!(from.apply(E::Cancelled).ok(), pending.then_some(S::Cancelled), "{from}");
    }
}

#[test]
fn only_an_unanswered_message_changes() {
    for &event in E::ALL {
        let sources = S::sources(event);
        assert!(!sources.is_empty() && sources.iter().all(|state| !state.is_terminal()), "{event}");
    }
    assert_eq!(S::sources(E::Claimed), [S::Pending]);
    assert_eq!(S::sources(E::Consumed), [S::Claimed]);
    assert_eq!(S::sources(E::Requeued), [S::Pending, S::Claimed]);
}

fn after(events: &[RunTransition]) -> RunState {
    events.iter().fold(RunState::ACCEPTED, |state, event| state.apply(*event).unwrap())
}

#[test]
fn the_interaction_follows_from_the_run_and_its_messages() {
    use InteractionState as I;
    let parked = |why| after(&[RunTransition::Claimed, RunTransition::Parked(why)]);
    for (run, pending, interaction) in [
        (RunState::ACCEPTED, 0, I::Working),
        (after(&[RunTransition::Claimed]), 0, I::Working),
        (parked(WaitReason::Question), 0, I::WaitingForInput),
        (parked(WaitReason::Question), 1, I::Working),
        (parked(WaitReason::Approval), 0, I::Working),
        (parked(WaitReason::Child), 0, I::Working),
        (after(&[RunTransition::Claimed, RunTransition::Succeeded]), 0, I::Closed),
        (after(&[RunTransition::Cancelled]), 3, I::Closed),
    ] {
        assert_eq!(InteractionState::of(run, pending), interaction, "{run:?} with {pending}");
        assert_eq!(interaction == I::Closed, run.phase() == RunPhase::Done);
    }
}
