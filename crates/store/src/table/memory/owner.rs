//! Owners, and how often their memories changed.

use crate::{FromRow, Row, StoreError, Tx, params};

/// The state of an owner's memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OwnerState {
    /// The owner's number.
    pub no: i64,
    /// Grows with each change of the owner's memories.
    pub change: i64,
    /// An index that has read this change or a later one can be brought up to date.
    pub epoch: i64,
}

impl FromRow for OwnerState {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { no: row.take()?, change: row.take()?, epoch: row.take()? })
    }
}

/// The state of an owner's memories; `None` if the owner has none.
pub fn state(tx: &mut Tx<'_>, name: &str) -> Result<Option<OwnerState>, StoreError> {
    tx.optional("SELECT no, change, epoch FROM owner WHERE name = ?1", params![name])
}

/// The number of an owner.
pub fn number(tx: &mut Tx<'_>, name: &str) -> Result<Option<i64>, StoreError> {
    tx.optional("SELECT no FROM owner WHERE name = ?1", params![name])
}

/// The number of an owner, a new one if the owner has none.
pub fn number_or_new(tx: &mut Tx<'_>, name: &str) -> Result<i64, StoreError> {
    match number(tx, name)? {
        Some(no) => Ok(no),
        None => tx.one("INSERT INTO owner (name) VALUES (?1) RETURNING no", params![name]),
    }
}

/// Counts a change of the owner's memories.
pub fn next_change(tx: &mut Tx<'_>, no: i64) -> Result<i64, StoreError> {
    tx.one("UPDATE owner SET change = change + 1 WHERE no = ?1 RETURNING change", params![no])
}

/// Makes every index of the owner's memories start again.
pub fn start_epoch(tx: &mut Tx<'_>, no: i64) -> Result<(), StoreError> {
    tx.execute("UPDATE owner SET epoch = change WHERE no = ?1", params![no]).map(drop)
}
