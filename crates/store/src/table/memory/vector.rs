//! Vectors of memories, and the embedder that computed them.

use crate::{FromRow, Row, StoreError, Tx, params};

/// Maximum number of memories in one page of changes.
const CHANGES_MAX: i64 = 1000;

/// A changed memory, as an index needs it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedMemory {
    /// Row number in the file.
    pub seq: i64,
    /// Number of the change that wrote the memory.
    pub change: i64,
    /// False if the memory is superseded.
    pub is_current: bool,
    /// Number of words in the text.
    pub words: i64,
    /// The vector as little-endian 32-bit floats, if the memory has one.
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

/// Position in the list of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChangePosition {
    /// Number of the change.
    pub change: i64,
    /// Row number of the memory.
    pub seq: i64,
}

/// Returns the next changes of an owner's memories after a position, in order. Empty if there are none.
pub fn changes_after(
    tx: &mut Tx<'_>,
    owner: i64,
    after: ChangePosition,
) -> Result<Vec<ChangedMemory>, StoreError> {
    tx.fetch_all(
        "SELECT memory.seq, change, superseded_by IS NULL, words, numbers FROM memory LEFT JOIN vector USING (seq)
         WHERE owner = ?1 AND change >= ?2 AND (change > ?2 OR memory.seq > ?3)
         ORDER BY change, memory.seq LIMIT ?4",
        params![owner, after.change, after.seq, CHANGES_MAX],
    )
}

/// Returns the vector of a memory. `None` if the memory has none.
pub fn get(tx: &mut Tx<'_>, seq: i64) -> Result<Option<Vec<u8>>, StoreError> {
    tx.fetch_optional("SELECT numbers FROM vector WHERE seq = ?1", params![seq])
}

/// Inserts or replaces the vector of a memory.
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

/// Returns the name of the embedder that computed the vectors. `None` before the first vector.
pub fn space(tx: &mut Tx<'_>) -> Result<Option<String>, StoreError> {
    tx.fetch_optional("SELECT value FROM meta WHERE key = 'space'", params![])
}

/// Stores the name of the embedder that computed the vectors.
pub fn set_space(tx: &mut Tx<'_>, space: &str) -> Result<(), StoreError> {
    tx.execute("INSERT INTO meta (key, value) VALUES ('space', ?1)", params![space]).map(drop)
}
