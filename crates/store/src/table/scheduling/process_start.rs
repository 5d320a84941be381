//! Starts of the service, for the detection of crash loops.

use provost_core::{Timestamp, WorkerId};

use crate::transaction::value::TextColumn;
use crate::{StoreError, Tx, params};

table! {
    /// A start of the service.
    ProcessStartRow in "boot" {
        /// The id of the start.
        id: String,
        /// Time of the start.
        started: Timestamp,
        /// Time of the clean shutdown; `None` after a crash or while the process runs.
        clean_stop: Option<Timestamp>,
    }
}

impl ProcessStartRow {
    /// Parses the worker that started.
    pub fn worker(&self) -> Result<WorkerId, StoreError> {
        TextColumn { table: "boot", column: "id", row: &self.started, text: &self.id }.parse()
    }
}

/// Returns the start with this id. `None` if it does not exist.
pub fn get(tx: &mut Tx<'_>, id: &str) -> Result<Option<ProcessStartRow>, StoreError> {
    tx.fetch_optional(&ProcessStartRow::select("WHERE id = ?1"), params![id])
}

/// Records a clean shutdown.
pub fn stop(tx: &mut Tx<'_>, id: &str) -> Result<(), StoreError> {
    tx.execute_fenced("UPDATE boot SET clean_stop = ?2 WHERE id = ?1", params![id, tx.now()])
        .map(drop)
}

/// Returns the starts since `since` without a clean shutdown, newest first. They include processes that still run.
pub fn unclean_since(
    tx: &mut Tx<'_>,
    since: Timestamp,
) -> Result<Vec<ProcessStartRow>, StoreError> {
    let sql = ProcessStartRow::select(
        "WHERE started >= ?1 AND clean_stop IS NULL ORDER BY started DESC, id DESC LIMIT 100",
    );
    tx.fetch_all(&sql, params![since])
}

/// Removes the starts before `before` and returns their number.
pub fn forget(tx: &mut Tx<'_>, before: Timestamp) -> Result<u64, StoreError> {
    tx.execute("DELETE FROM boot WHERE started < ?1", params![before])
}
