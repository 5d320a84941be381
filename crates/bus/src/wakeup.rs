//! Wakeups: reports of changed rows.

use provost_core::RunId;
use serde::{Deserialize, Serialize};

/// Reports which row changed. Sent after the commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wakeup {
    /// A run can be claimed.
    RunReady,
    /// A run has new events.
    Events(RunId),
    /// A run has ended.
    Ended(RunId),
    /// A run has a new input.
    Input(RunId),
    /// A cancellation of a run was requested.
    Cancel(RunId),
    /// An approval of a run was decided.
    Approval(RunId),
    /// A timer was set that may be the next one.
    Timer,
    /// A schedule was created or changed.
    Schedule,
    /// A delivery can be sent.
    Delivery,
    /// The outbox has a new row.
    Outbox,
}

impl Wakeup {
    /// Returns true if a worker acts on it. Other wakeups report the progress of a run.
    pub(crate) const fn is_task(self) -> bool {
        !matches!(self, Self::Events(_) | Self::Ended(_))
    }
}
