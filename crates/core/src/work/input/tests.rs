//! The way of a message and the projection of a run.

use super::*;
use crate::work::tests::{check_machine, reachable};
use crate::work::{RunEvent, RunPhase};

use InputEvent as E;
use InputState as S;

#[test]
fn the_table_is_all_there_is() {
    let table = [
        (S::Pending, E::Claimed, S::Claimed),
        (S::Claimed, E::Consumed, S::Consumed),
        (S::Claimed, E::EpochLost, S::Pending),
        (S::Pending, E::Superseded, S::Superseded),
        (S::Pending, E::Cancelled, S::Cancelled),
    ];
    for &from in S::ALL {
        for &event in E::ALL {
            let row = table.iter().find(|(state, of, _)| (*state, *of) == (from, event));
            assert_eq!(from.next(event).ok(), row.map(|row| row.2), "{from} {event}");
        }
    }
    check_machine(S::ALL, E::ALL, S::next, S::is_terminal);
    assert_eq!(reachable(S::Pending, E::ALL, S::next).len(), S::ALL.len());
}

#[test]
fn g24_a_message_whose_attempt_is_lost_is_there_again_for_the_next() {
    let back = S::Pending.next(E::Claimed).and_then(|state| state.next(E::EpochLost)).unwrap();
    assert_eq!(back, S::Pending);
    assert!(S::Consumed.next(E::EpochLost).is_err(), "what is consumed is read once");
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
        (parked(ParkedFor::Input), 0, I::WaitingForInput),
        (parked(ParkedFor::Question), 1, I::Working),
        (parked(ParkedFor::Approval), 0, I::Working),
        (parked(ParkedFor::Timer), 0, I::Working),
        (parked(ParkedFor::Child), 0, I::Working),
        (after(&[RunEvent::Claimed, RunEvent::Succeeded]), 0, I::Closed),
        (after(&[RunEvent::Cancelled]), 3, I::Closed),
    ] {
        assert_eq!(Interaction::of(run, pending), interaction, "{run:?} with {pending}");
        assert_eq!(interaction == I::Closed, run.phase() == RunPhase::Done);
    }
}
