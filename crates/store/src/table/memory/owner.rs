//! Owners of memories, and their change counters.

use crate::{FromRow, Row, StoreError, Tx, params};

/// Versions of an owner's memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerState {
    /// Number of the owner.
    pub no: i64,
    /// Number of the last change of the owner's memories.
    pub change: i64,
    /// Oldest change from which an index can be updated. An index that is older must be rebuilt.
    pub epoch: i64,
}

impl FromRow for OwnerState {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { no: row.take()?, change: row.take()?, epoch: row.take()? })
    }
}

/// Returns the versions of an owner's memories; `None` for an unknown owner.
pub fn state(tx: &mut Tx<'_>, name: &str) -> Result<Option<OwnerState>, StoreError> {
    tx.fetch_optional("SELECT no, change, epoch FROM owner WHERE name = ?1", params![name])
}

/// Returns the number of an owner; `None` for an unknown owner.
pub fn number(tx: &mut Tx<'_>, name: &str) -> Result<Option<i64>, StoreError> {
    tx.fetch_optional("SELECT no FROM owner WHERE name = ?1", params![name])
}

/// Returns the number of an owner. Inserts an unknown owner.
pub fn number_or_new(tx: &mut Tx<'_>, name: &str) -> Result<i64, StoreError> {
    match number(tx, name)? {
        Some(no) => Ok(no),
        None => tx.fetch_one("INSERT INTO owner (name) VALUES (?1) RETURNING no", params![name]),
    }
}

/// Increments the change counter of an owner and returns it.
pub fn next_change(tx: &mut Tx<'_>, no: i64) -> Result<i64, StoreError> {
    tx.fetch_one("UPDATE owner SET change = change + 1 WHERE no = ?1 RETURNING change", params![no])
}

/// Forces every index of the owner's memories to be rebuilt.
pub fn start_epoch(tx: &mut Tx<'_>, no: i64) -> Result<(), StoreError> {
    tx.execute("UPDATE owner SET epoch = change WHERE no = ?1", params![no]).map(drop)
}
