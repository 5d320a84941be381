//! Common checks of all state machines, and their interaction.

use std::fmt::Debug;
use std::hash::Hash;

use crate::lifecycle::InvalidTransition;

mod faults;
mod two_workers;
mod words;

/// Checks that every pair of state and transition gives a state or a correct [`InvalidTransition`], and that no
/// transition leaves a terminal state.
#[track_caller]
pub(crate) fn check_machine<S, E>(
    states: &[S],
    events: &[E],
    next: impl Fn(S, E) -> Result<S, InvalidTransition>,
    is_terminal: impl Fn(S) -> bool,
) where
    S: Copy + Eq + Debug,
    E: Copy + Debug,
{
    for &state in states {
        let mut ways_out = 0;
        for &event in events {
            match next(state, event) {
                Ok(after) => {
                    assert!(!is_terminal(state), "{state:?} was left by {event:?}");
                    assert!(states.contains(&after), "{after:?} is not listed");
                    ways_out += usize::from(after != state);
                }
                Err(illegal) => assert_eq!(illegal.terminal, is_terminal(state), "{illegal}"),
            }
        }
        assert!(is_terminal(state) || ways_out > 0, "{state:?} cannot be left");
    }
}

/// Returns all states that can be reached from `first`.
pub(crate) fn reachable<S, E>(
    first: S,
    events: &[E],
    next: impl Fn(S, E) -> Result<S, InvalidTransition>,
) -> std::collections::HashSet<S>
where
    S: Copy + Eq + Hash,
    E: Copy,
{
    let (mut seen, mut open) = (std::collections::HashSet::from([first]), vec![first]);
    while let Some(state) = open.pop() {
        for after in events.iter().filter_map(|event| next(state, *event).ok()) {
            if seen.insert(after) {
                open.push(after);
            }
        }
    }
    seen
}
