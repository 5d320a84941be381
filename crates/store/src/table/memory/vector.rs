//! Vectors of memories, and the embedder they come from.

use crate::{FromRow, Row, StoreError, Tx, params};

/// Memories that one read of changes gives at most.
const CHANGES_MAX: i64 = 1000;

/// A change of a memory, for an index.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedMemory {
    /// Its place in the file.
    pub seq: i64,
    /// The change of the owner's memories that wrote it.
    pub change: i64,
    /// False if it is superseded.
    pub is_current: bool,
    /// The number of words in the text.
    pub words: i64,
    /// The vector, if it has one.
    pub numbers: Option<Vec<u8>>,
}

impl FromRow for ChangedMemory {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            seq: row.take()?,
            change: row.take()?,
            is_current: row.take()?,
            words: row.take()?,
            numbers: row.take()?,
        })
    }
}

/// A place in the changes of an owner's memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangePlace {
    /// The change.
    pub change: i64,
    /// The place of the memory.
    pub seq: i64,
}

/// The changes of an owner's memories after a place, in order; empty if there are no more.
pub fn changes_after(
    tx: &mut Tx<'_>,
    owner: i64,
    after: ChangePlace,
) -> Result<Vec<ChangedMemory>, StoreError> {
    tx.all(
        "SELECT memory.seq, change, superseded_by IS NULL, words, numbers FROM memory LEFT JOIN vector USING (seq)
         WHERE owner = ?1 AND change >= ?2 AND (change > ?2 OR memory.seq > ?3)
         ORDER BY change, memory.seq LIMIT ?4",
        params![owner, after.change, after.seq, CHANGES_MAX],
    )
}

/// The vector of a memory.
pub fn get(tx: &mut Tx<'_>, seq: i64) -> Result<Option<Vec<u8>>, StoreError> {
    tx.optional("SELECT numbers FROM vector WHERE seq = ?1", params![seq])
}

/// Stores the vector of a memory.
pub fn put(tx: &mut Tx<'_>, seq: i64, numbers: &[u8]) -> Result<(), StoreError> {
    tx.execute(
        "INSERT INTO vector (seq, numbers) VALUES (?1, ?2)
         ON CONFLICT (seq) DO UPDATE SET numbers = excluded.numbers",
        params![seq, numbers],
    )
    .map(drop)
}

/// Deletes the vector of a memory.
pub fn delete(tx: &mut Tx<'_>, seq: i64) -> Result<(), StoreError> {
    tx.execute("DELETE FROM vector WHERE seq = ?1", params![seq]).map(drop)
}

/// The name of the embedder that made the vectors.
pub fn space(tx: &mut Tx<'_>) -> Result<Option<String>, StoreError> {
    tx.optional("SELECT value FROM meta WHERE key = 'space'", params![])
}

/// Stores the name of the embedder.
pub fn set_space(tx: &mut Tx<'_>, space: &str) -> Result<(), StoreError> {
    tx.execute("INSERT INTO meta (key, value) VALUES ('space', ?1)", params![space]).map(drop)
}
