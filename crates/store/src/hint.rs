//! Wake-ups for whoever waits in this process.

use provost_core::RunId;

/// Something changed: look again. Sent after the commit; it may be lost, so everybody who listens also polls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Hint {
    /// A run can be claimed.
    RunReady,
    /// A run has new events.
    Events(RunId),
    /// A run has a new input.
    Input(RunId),
    /// Somebody asked to cancel a run.
    Cancel(RunId),
    /// An approval of a run was answered.
    Approval(RunId),
    /// A timer was set that may be the next one.
    Timer,
    /// A delivery can be sent.
    Delivery,
    /// The outbox has a new row.
    Outbox,
}
