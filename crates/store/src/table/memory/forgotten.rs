//! Deleted memories, for processes that hold an index of memories.

use crate::{StoreError, Tx, params};

/// Records the deletion of a memory.
pub fn insert(tx: &mut Tx<'_>, owner: i64, change: i64, seq: i64) -> Result<(), StoreError> {
    let sql = "INSERT INTO gone (owner, change, seq) VALUES (?1, ?2, ?3)";
    tx.execute(sql, params![owner, change, seq]).map(drop)
}

/// Returns the row numbers of memories that were deleted after a change.
pub fn after(tx: &mut Tx<'_>, owner: i64, change: i64) -> Result<Vec<i64>, StoreError> {
    tx.fetch_all("SELECT seq FROM gone WHERE owner = ?1 AND change > ?2", params![owner, change])
}

/// Returns the number of recorded deletions.
pub fn count(tx: &mut Tx<'_>, owner: i64) -> Result<u64, StoreError> {
    tx.fetch_one("SELECT count(*) FROM gone WHERE owner = ?1", params![owner])
}

/// Removes the recorded deletions of an owner.
pub fn clear(tx: &mut Tx<'_>, owner: i64) -> Result<(), StoreError> {
    tx.execute("DELETE FROM gone WHERE owner = ?1", params![owner]).map(drop)
}
