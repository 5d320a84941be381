//! Typed views of a run's row.

use provost_core::Timestamp;
use provost_core::execution_policy::ExecutionPolicy;
use provost_core::lifecycle::RunState;
use provost_core::recovery::OutcomeCode;

use crate::query::{QueryError, parse};
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
        let parked_for = self.parked_for.as_deref().map(parse).transpose()?;
        RunState::from_row(
            parse(&self.status)?,
            parse(&self.phase)?,
            parked_for,
            self.holds_session,
        )
        .ok_or_else(|| QueryError::Unreadable(format!("{} is in no state a run can have", self.id)))
    }

    /// Parses the execution policy with which the run was started.
    pub fn execution_policy(&self) -> Result<ExecutionPolicy, QueryError> {
        Ok(serde_json::from_str(&self.policy)?)
    }

    /// Parses the outcome code, if there is one.
    pub fn outcome(&self) -> Result<Option<OutcomeCode>, QueryError> {
        self.outcome_code.as_deref().map(parse).transpose()
    }
}
