//! Joins: conditions under which parked runs continue.

use provost_core::lifecycle::JoinMode;
use provost_core::{ApprovalId, RunId, Timestamp};

use crate::transaction::value::TextColumn;
use crate::{StoreError, Tx, params};

table! {
    /// A wait of a parked run.
    RunJoinRow in "run_join" {
        /// Id of the request that suspended the call, or of the run if no call waits.
        id: String,
        /// The waiting run.
        run_id: RunId,
        /// The dependencies that must have ended.
        mode: JoinMode,
        /// Time at which the wait times out; `None` for never.
        until: Option<Timestamp>,
        /// The call that gets the result, as JSON; `None` if no call waits.
        call: Option<String>,
        /// True if the call is repeated after the wait. Otherwise the call gets the result of the wait.
        again: bool,
        /// The lead's run, if the join waits for a change of a team instead of dependencies.
        team_lead: Option<RunId>,
        /// The member that waits for messages; `None` to wait for the end of all members.
        mail_of: Option<String>,
    }
}

impl RunJoinRow {
    /// Parses the id of the request that suspended the call.
    pub fn request_id(&self) -> Result<ApprovalId, StoreError> {
        TextColumn { table: "run_join", column: "id", row: &self.run_id, text: &self.id }.parse()
    }
}

/// Returns the joins of a run.
pub fn of_run(tx: &mut Tx<'_>, run: RunId) -> Result<Vec<RunJoinRow>, StoreError> {
    tx.fetch_all(&RunJoinRow::select("WHERE run_id = ?1 ORDER BY id"), params![run])
}

/// Returns true if a run has joins.
pub fn has_any(tx: &mut Tx<'_>, run: RunId) -> Result<bool, StoreError> {
    tx.exists("SELECT 1 FROM run_join WHERE run_id = ?1", params![run])
}

/// Removes a join and its dependencies.
pub fn remove(tx: &mut Tx<'_>, join: &str) -> Result<(), StoreError> {
    tx.execute("DELETE FROM run_dependency WHERE join_id = ?1", params![join])?;
    tx.execute("DELETE FROM run_join WHERE id = ?1", params![join]).map(drop)
}

/// Removes the joins of a run.
pub fn remove_of_run(tx: &mut Tx<'_>, run: RunId) -> Result<(), StoreError> {
    for join in of_run(tx, run)? {
        remove(tx, &join.id)?;
    }
    Ok(())
}
