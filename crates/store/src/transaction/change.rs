//! SQL of the transitions of a state machine.

use std::fmt::Display;

/// A transition as SQL. The state machine of [`provost_core::lifecycle`] defines it.
pub(crate) struct Change {
    /// The assignment of the new state.
    pub(crate) set: String,
    /// The condition that the current state permits the transition.
    pub(crate) from: String,
}

impl Change {
    /// Creates the SQL of a transition from one of `sources` to `target`.
    pub(crate) fn new<T: Display>(target: T, sources: &[T]) -> Self {
        let sources: Vec<String> = sources.iter().map(|state| format!("'{state}'")).collect();
        // One state is compared with `=`, so that SQLite uses an index with the same condition.
        let from = match sources.as_slice() {
            [source] => format!("state = {source}"),
            sources => format!("state IN ({})", sources.join(", ")),
        };
        Self { set: format!("state = '{target}'"), from }
    }
}
