//! What all machines have in common, and what they do together.

use std::fmt::Debug;
use std::hash::Hash;

use crate::lifecycle::Illegal;

mod faults;
mod two_workers;
mod words;

/// Every pair of state and event is a state or an [`Illegal`] that tells the truth, and ends are left by nothing.
#[track_caller]
pub(crate) fn check_machine<S, E>(
    states: &[S],
    events: &[E],
    next: impl Fn(S, E) -> Result<S, Illegal>,
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

/// Every state that events can lead to from a first one.
pub(crate) fn reachable<S, E>(
    first: S,
    events: &[E],
    next: impl Fn(S, E) -> Result<S, Illegal>,
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
