//! The way of a message and the projection of a run.

use super::*;
use crate::lifecycle::{RunEvent, RunPhase};

use InputEvent as E;
use InputState as S;

#[test]
fn only_a_message_that_nobody_has_taken_can_leave_the_queue() {
    for &from in S::ALL {
        let pending = from == S::Pending;
        assert_eq!(from.next(E::Superseded).ok(), pending.then_some(S::Superseded), "{from}");
        assert_eq!(from.next(E::Cancelled).ok(), pending.then_some(S::Cancelled), "{from}");
    }
}

fn after(events: &[RunEvent]) -> RunState {
    events.iter().fold(RunState::ACCEPTED, |state, event| state.next(*event).unwrap())
}

#[test]
fn the_interaction_follows_from_the_run_and_its_messages() {
    use Interaction as I;
    let parked = |why| after(&[RunEvent::Claimed, RunEvent::Parked(why)]);
    for (run, pending, interaction) in [
        (RunState::ACCEPTED, 0, I::Working),
        (after(&[RunEvent::Claimed]), 0, I::Working),
        (parked(ParkedFor::Question), 0, I::WaitingForInput),
        (parked(ParkedFor::Question), 1, I::Working),
        (parked(ParkedFor::Approval), 0, I::Working),
        (parked(ParkedFor::Child), 0, I::Working),
        (after(&[RunEvent::Claimed, RunEvent::Succeeded]), 0, I::Closed),
        (after(&[RunEvent::Cancelled]), 3, I::Closed),
    ] {
        assert_eq!(Interaction::of(run, pending), interaction, "{run:?} with {pending}");
        assert_eq!(interaction == I::Closed, run.phase() == RunPhase::Done);
    }
}
