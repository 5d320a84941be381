//! Typed views of a run's row.

use provost_core::Timestamp;
use provost_core::execution_policy::ExecutionPolicy;
use provost_core::lifecycle::RunState;

use crate::query::QueryError;
use crate::table::work::run::RunRow;

/// The `not_before` of a child that waits for a slot of its siblings: a time that never comes.
pub const DEFERRED: Timestamp = Timestamp::from_millis(253_402_300_799_000);

impl RunRow {
    /// Returns true for a deferred child, which waits until siblings of its call end.
    pub fn is_deferred(&self) -> bool {
        self.not_before == DEFERRED
    }

    /// Combines status, phase, wait reason and session ownership into the state of the run.
    pub fn state(&self) -> Result<RunState, QueryError> {
        RunState::from_row(self.status, self.phase, self.parked_for, self.holds_session).ok_or_else(
            || QueryError::Unreadable(format!("{} is in no state a run can have", self.id)),
        )
    }

    /// Parses the execution policy with which the run was started.
    pub fn execution_policy(&self) -> Result<ExecutionPolicy, QueryError> {
        Ok(serde_json::from_str(&self.policy)?)
    }
}
