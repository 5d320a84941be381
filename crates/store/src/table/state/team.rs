//! Teams: what a run that leads one knows of it.

use provost_core::{RunId, Timestamp};

use crate::{StoreError, Tx, params};

table! {
    /// The team of one run.
    TeamRow in "team" {
        /// The run of its lead.
        run_id: RunId,
        /// Its book, as JSON.
        book: String,
        /// When it changed.
        updated: Timestamp,
    }
}

/// The team of a run.
pub fn get(tx: &mut Tx<'_>, run_id: RunId) -> Result<Option<TeamRow>, StoreError> {
    tx.optional(&TeamRow::select("WHERE run_id = ?1"), params![run_id])
}

/// Stores the book of a run's team.
pub fn put(tx: &mut Tx<'_>, row: &TeamRow) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO team (run_id, book, updated) VALUES (?1, ?2, ?3)
         ON CONFLICT (run_id) DO UPDATE SET book = excluded.book, updated = excluded.updated",
        params![row.run_id, row.book, row.updated],
    )
    .map(drop)
}
