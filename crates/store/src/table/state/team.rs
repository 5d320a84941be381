//! State of teams.

use provost_core::{RunId, Timestamp};

use crate::{StoreError, Tx, params};

table! {
    /// The team of a run.
    TeamRow in "team" {
        /// The run of the lead.
        run_id: RunId,
        /// State of the team, as JSON.
        book: String,
        /// Time of the last change.
        updated: Timestamp,
    }
}

/// Returns the team of a lead's run. `None` if the run has none.
pub fn get(tx: &mut Tx<'_>, run_id: RunId) -> Result<Option<TeamRow>, StoreError> {
    tx.fetch_optional(&TeamRow::select("WHERE run_id = ?1"), params![run_id])
}

/// Inserts or replaces the state of a team.
pub fn put(tx: &mut Tx<'_>, row: &TeamRow) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO team (run_id, book, updated) VALUES (?1, ?2, ?3)
         ON CONFLICT (run_id) DO UPDATE SET book = excluded.book, updated = excluded.updated",
        params![row.run_id, row.book, row.updated],
    )
    .map(drop)
}
