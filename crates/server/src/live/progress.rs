//! The order of live deltas and durable events.
//!
//! The rule: a delta is delivered after every durable event of a smaller [`Progress`], and before the event that ends its own.
//! So a client never sees a delta of a turn after the event that holds the whole turn.

use provost_core::EventKind;

/// How far a run has got. Ordered: the model phase of a turn comes before its tool phase, and that before the next turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Progress {
    turn: u32,
    phase: Phase,
}

/// What a turn does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Phase {
    /// The model answers.
    #[default]
    Model,
    /// The model has answered; tools run.
    Tools,
}

impl Progress {
    /// A run whose model answers in this turn.
    pub(super) fn model(turn: u32) -> Self {
        Self { turn, phase: Phase::Model }
    }

    /// A run whose model has answered in this turn.
    pub(super) fn tools(turn: u32) -> Self {
        Self { turn, phase: Phase::Tools }
    }

    /// Returns the progress that a live event begins, if it begins one.
    pub(super) fn begun_by(kind: &EventKind) -> Option<Self> {
        match kind {
            EventKind::TurnStarted { turn } => Some(Self::model(*turn)),
            EventKind::TurnFinished { turn, .. } => Some(Self::tools(*turn)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_is_ordered_by_its_phases() {
        let order =
            [Progress::default(), Progress::model(1), Progress::tools(1), Progress::model(2)];
        assert!(order.is_sorted_by(|one, two| one < two));
    }
}
