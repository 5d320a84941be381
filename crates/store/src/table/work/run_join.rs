//! Joins: parked runs that wait for other runs.

use provost_core::{RunId, Timestamp};

use crate::{StoreError, Tx, params};

table! {
    /// One call of a parked run that waits.
    RunJoinRow in "run_join" {
        /// Id of the request that suspended the call, or of the run if no call waits.
        id: String,
        /// The run that waits.
        run_id: RunId,
        /// `all` or `any`: how many of its dependencies must have ended.
        mode: String,
        /// When the wait times out.
        until: Option<Timestamp>,
        /// The call that gets the result, as JSON; none if no call waits.
        call: Option<String>,
        /// True if the call is made again after the wait. It gets its result otherwise.
        again: bool,
        /// The run of the lead, if this waits for a change of its team and not for dependencies.
        team_lead: Option<RunId>,
        /// The member whose messages are waited for; none for the end of all members.
        mail_of: Option<String>,
    }
}

/// The joins of a run.
pub fn of_run(tx: &mut Tx<'_>, run: RunId) -> Result<Vec<RunJoinRow>, StoreError> {
    tx.all(&RunJoinRow::select("WHERE run_id = ?1 ORDER BY id"), params![run])
}

/// True if a run has joins.
pub fn has_any(tx: &mut Tx<'_>, run: RunId) -> Result<bool, StoreError> {
    tx.exists("SELECT 1 FROM run_join WHERE run_id = ?1", params![run])
}

/// Removes a join with its dependencies.
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
