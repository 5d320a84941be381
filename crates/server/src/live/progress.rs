//! The order of live deltas and durable events.
//!
//! A delta is delivered after all durable events with a smaller [`Progress`] and before the event that ends its own progress. So
//! a client never receives a delta of a turn after the event that contains the complete turn.

use provost_core::EventKind;

/// Progress of a run. The model phase of a turn precedes its tool phase, which precedes the next turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Progress {
    turn: u32,
    phase: Phase,
}

/// Phase of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
enum Phase {
    /// The model responds.
    #[default]
    Model,
    /// The model has responded, and tools run.
    Tools,
}

impl Progress {
    /// Returns the progress of a run whose model responds in this turn.
    pub(super) fn model(turn: u32) -> Self {
        Self { turn, phase: Phase::Model }
    }

    /// Returns the progress of a run whose model has responded in this turn.
    pub(super) fn tools(turn: u32) -> Self {
        Self { turn, phase: Phase::Tools }
    }

    /// Returns the progress that starts with a live event. `None` if the event does not change the progress.
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
