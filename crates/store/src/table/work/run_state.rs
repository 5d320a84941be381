//! Typed values of a run's row.

use provost_core::Timestamp;
use provost_core::execution_policy::ExecPolicy;
use provost_core::lifecycle::RunState;
use provost_core::recovery::OutcomeCode;

use crate::query::{QueryError, parse};
use crate::table::work::run::RunRow;

/// `not_before` of a run that waits for a slot of its siblings: a moment that never comes.
pub const DEFERRED: Timestamp = Timestamp::from_millis(253_402_300_799_000);

impl RunRow {
    /// True for a child that waits for others of its call to end before it may begin.
    pub fn is_deferred(&self) -> bool {
        self.not_before == DEFERRED
    }

    /// The state that status, phase, reason of parking and session form together.
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

    /// The execution policy that the run was started with.
    pub fn execution_policy(&self) -> Result<ExecPolicy, QueryError> {
        Ok(serde_json::from_str(&self.policy)?)
    }

    /// The outcome code, once there is one.
    pub fn outcome(&self) -> Result<Option<OutcomeCode>, QueryError> {
        self.outcome_code.as_deref().map(parse).transpose()
    }
}
