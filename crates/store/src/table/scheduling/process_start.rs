//! Starts of the service, so that a crash loop can be seen.

use provost_core::Timestamp;

use crate::{StoreError, Tx, params};

table! {
    /// One start.
    BootRow in "boot" {
        /// The id of the start.
        id: String,
        /// When it was.
        started: Timestamp,
        /// When it was stopped in order.
        clean_stop: Option<Timestamp>,
    }
}

/// The start with the id.
pub fn get(tx: &mut Tx<'_>, id: &str) -> Result<Option<BootRow>, StoreError> {
    tx.optional(&BootRow::select("WHERE id = ?1"), params![id])
}

/// Notes that this start ended in order.
pub fn stop(tx: &mut Tx<'_>, id: &str) -> Result<(), StoreError> {
    tx.execute_fenced("UPDATE boot SET clean_stop = ?2 WHERE id = ?1", params![id, tx.now()])
        .map(drop)
}

/// The starts since `since` that did not end in order, newest first. Those that still run are among them.
pub fn unclean_since(tx: &mut Tx<'_>, since: Timestamp) -> Result<Vec<BootRow>, StoreError> {
    let sql = BootRow::select(
        "WHERE started >= ?1 AND clean_stop IS NULL ORDER BY started DESC, id DESC LIMIT 100",
    );
    tx.all(&sql, params![since])
}

/// Forgets starts before `before`.
pub fn forget(tx: &mut Tx<'_>, before: Timestamp) -> Result<u64, StoreError> {
    tx.execute("DELETE FROM boot WHERE started < ?1", params![before])
}
