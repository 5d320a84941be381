//! The lease and the step of the model. The store guards both with SQL; the model says what these guards must achieve.

use std::time::Duration;

use crate::Timestamp;
use crate::lifecycle::StepState;
use crate::scheduling::Epoch;

/// A lease: free, or held under the current epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(super) struct Lease {
    /// The epoch of the last claim.
    pub(super) epoch: Epoch,
    pub(super) held: Option<Held>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Held {
    pub(super) until: Timestamp,
    /// Renewals no longer extend it.
    cancel_requested: bool,
}

impl Lease {
    /// Takes it under a new epoch, unless it is live.
    pub(super) fn acquire(self, now: Timestamp, ttl: Duration) -> Option<Self> {
        if self.held.is_some_and(|held| now < held.until) {
            return None;
        }
        let held = Held { until: now.after(ttl), cancel_requested: false };
        Some(Self { epoch: self.epoch.next(), held: Some(held) })
    }

    /// Extends the hold of `epoch`; nothing if that is fenced.
    pub(super) fn renew(self, epoch: Epoch, now: Timestamp, ttl: Duration) -> Option<Self> {
        let extend = |held: Held| Held {
            until: if held.cancel_requested { held.until } else { held.until.max(now.after(ttl)) },
            ..held
        };
        self.admits(epoch).then(|| Self { held: self.held.map(extend), ..self })
    }

    /// May `epoch` write? Only if it is current and the lease is still held.
    pub(super) fn admits(&self, epoch: Epoch) -> bool {
        self.held.is_some() && self.epoch == epoch
    }

    pub(super) fn cancel_requested(self) -> Self {
        Self { held: self.held.map(|held| Held { cancel_requested: true, ..held }), ..self }
    }

    pub(super) fn release(self) -> Self {
        Self { held: None, ..self }
    }
}

/// What happens to a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepTransition {
    Committed,
    EpochLost,
    RunAgain,
}

/// The state of an open step after an event.
pub(super) fn step_after(state: StepState, event: StepTransition) -> Option<StepState> {
    use StepState as S;
    Some(match (state, event) {
        (S::Unknown, StepTransition::RunAgain) => S::Started,
        (S::Planned | S::Started | S::Unknown, StepTransition::Committed) => S::Committed,
        (S::Planned, StepTransition::EpochLost) => S::Planned,
        (S::Started | S::Unknown, StepTransition::EpochLost) => S::Unknown,
        _ => return None,
    })
}
