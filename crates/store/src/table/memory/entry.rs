//! Memories and their source messages.

use provost_core::Timestamp;

use crate::{FromRow, Row, StoreError, ToColumn, Tx, Value, params};

const COLUMNS: &str =
    "seq, id, text, category, metadata, created_at, updated_at, valid_from, superseded_by";

/// A memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryRow {
    /// Row number in the file.
    pub seq: i64,
    /// The id.
    pub id: Vec<u8>,
    /// The text.
    pub text: String,
    /// The category.
    pub category: Option<String>,
    /// The metadata, as a JSON object.
    pub metadata: String,
    /// Time of creation.
    pub created_at: Timestamp,
    /// Time of the last change of the text.
    pub updated_at: Timestamp,
    /// Time from which the memory is valid.
    pub valid_from: Timestamp,
    /// Id of the memory that superseded this one.
    pub superseded_by: Option<Vec<u8>>,
}

impl FromRow for MemoryRow {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self {
            seq: row.take()?,
            id: row.take()?,
            text: row.take()?,
            category: row.take()?,
            metadata: row.take()?,
            created_at: row.take()?,
            updated_at: row.take()?,
            valid_from: row.take()?,
            superseded_by: row.take()?,
        })
    }
}

/// Data of a memory that the index of its owner needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexEntry {
    /// Number of the owner.
    pub owner: i64,
    /// Change number of the owner's memories that wrote this memory.
    pub change: i64,
    /// Number of words in the text.
    pub words: i64,
}

/// Identifies a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryKey {
    /// Row number in the file.
    pub seq: i64,
    /// The id.
    pub id: Vec<u8>,
}

impl FromRow for MemoryKey {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { seq: row.take()?, id: row.take()? })
    }
}

/// A message from which a memory was extracted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRow {
    /// Id of the session, or of the run.
    pub session: String,
    /// Digest of the message.
    pub message: String,
}

impl FromRow for SourceRow {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { session: row.take()?, message: row.take()? })
    }
}

/// Criteria for selecting memories.
#[derive(Debug, Clone, Default)]
pub struct MemoryRowFilter<'a> {
    /// Category of the memories; `None` for all.
    pub category: Option<&'a str>,
    /// Memories that are valid from this time or later; `None` for all.
    pub since: Option<Timestamp>,
    /// True to include superseded memories.
    pub include_superseded: bool,
}

impl MemoryRowFilter<'_> {
    /// Appends the conditions of the filter to a statement, and their values.
    fn narrow<'v>(&'v self, sql: &mut String, values: &mut Vec<Value<'v>>) {
        if !self.include_superseded {
            sql.push_str(" AND superseded_by IS NULL");
        }
        if let Some(category) = self.category {
            values.push(category.to_value());
            sql.push_str(&format!(" AND category = ?{}", values.len()));
        }
        if let Some(since) = &self.since {
            values.push(since.to_value());
            sql.push_str(&format!(" AND valid_from >= ?{}", values.len()));
        }
    }
}

/// Returns the memory with this id. `None` if it does not exist.
pub fn find(tx: &mut Tx<'_>, owner: i64, id: &[u8]) -> Result<Option<MemoryRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM memory WHERE owner = ?1 AND id = ?2");
    tx.fetch_optional(&sql, params![owner, id])
}

/// Returns the memory with this row number. `None` if the owner has none.
pub fn at(tx: &mut Tx<'_>, owner: i64, seq: i64) -> Result<Option<MemoryRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM memory WHERE owner = ?1 AND seq = ?2");
    tx.fetch_optional(&sql, params![owner, seq])
}

/// Returns at most `limit` memories, newest first, older than the memory `after`.
pub fn newest(
    tx: &mut Tx<'_>,
    owner: i64,
    filter: &MemoryRowFilter<'_>,
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Vec<MemoryRow>, StoreError> {
    let mut sql = format!("SELECT {COLUMNS} FROM memory WHERE owner = ?1");
    let mut values = vec![owner.to_value()];
    if let Some(after) = after {
        values.push(after.to_value());
        sql.push_str(" AND id < ?2");
    }
    filter.narrow(&mut sql, &mut values);
    sql.push_str(&format!(" ORDER BY id DESC LIMIT {limit}"));
    tx.fetch_all(&sql, &values)
}

/// Returns the row numbers of an owner's memories.
pub fn row_numbers(
    tx: &mut Tx<'_>,
    owner: i64,
    filter: &MemoryRowFilter<'_>,
) -> Result<Vec<i64>, StoreError> {
    let mut sql = "SELECT seq FROM memory WHERE owner = ?1".to_owned();
    let mut values = vec![owner.to_value()];
    filter.narrow(&mut sql, &mut values);
    tx.fetch_all(&sql, &values)
}

/// Returns the number of memories that are not superseded.
pub fn count(tx: &mut Tx<'_>, owner: i64) -> Result<u64, StoreError> {
    let sql = "SELECT count(*) FROM memory WHERE owner = ?1 AND superseded_by IS NULL";
    tx.fetch_one(sql, params![owner])
}

/// Inserts a memory and returns its row number. The `seq` of `row` is ignored.
pub fn insert(tx: &mut Tx<'_>, row: &MemoryRow, count: IndexEntry) -> Result<i64, StoreError> {
    tx.fetch_one(
        "INSERT INTO memory (owner, id, text, category, metadata, created_at, updated_at, valid_from, superseded_by,
                             words, change)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) RETURNING seq",
        params![
            count.owner,
            row.id,
            row.text,
            row.category,
            row.metadata,
            row.created_at,
            row.updated_at,
            row.valid_from,
            row.superseded_by,
            count.words,
            count.change
        ],
    )
}

/// Updates the text, category, metadata and time of change of a memory.
pub fn update(tx: &mut Tx<'_>, row: &MemoryRow, count: IndexEntry) -> Result<(), StoreError> {
    let sql = "UPDATE memory SET text = ?2, category = ?3, metadata = ?4, updated_at = ?5, words = ?6, change = ?7
               WHERE seq = ?1";
    tx.execute(
        sql,
        params![
            row.seq,
            row.text,
            row.category,
            row.metadata,
            row.updated_at,
            count.words,
            count.change
        ],
    )
    .map(drop)
}

/// Marks a memory as superseded by another one.
pub fn supersede(
    tx: &mut Tx<'_>,
    seq: i64,
    successor: &[u8],
    change: i64,
) -> Result<(), StoreError> {
    let sql = "UPDATE memory SET superseded_by = ?2, change = ?3 WHERE seq = ?1";
    tx.execute(sql, params![seq, successor, change]).map(drop)
}

/// Deletes a memory and its sources.
pub fn delete(tx: &mut Tx<'_>, seq: i64) -> Result<(), StoreError> {
    tx.execute("DELETE FROM source WHERE seq = ?1", params![seq])?;
    tx.execute("DELETE FROM memory WHERE seq = ?1", params![seq]).map(drop)
}

/// Returns the source messages of a memory.
pub fn sources(tx: &mut Tx<'_>, seq: i64) -> Result<Vec<SourceRow>, StoreError> {
    let sql = "SELECT session, message FROM source WHERE seq = ?1 ORDER BY 1, 2";
    tx.fetch_all(sql, params![seq])
}

/// Adds a source message to a memory, unless it exists.
pub fn add_source(tx: &mut Tx<'_>, seq: i64, source: &SourceRow) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO source (seq, session, message) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    tx.execute(sql, params![seq, source.session, source.message]).map(drop)
}

/// Returns the key of the memory with this id, as a list. Empty if it does not exist.
pub fn keys_of_id(tx: &mut Tx<'_>, owner: i64, id: &[u8]) -> Result<Vec<MemoryKey>, StoreError> {
    tx.fetch_all("SELECT seq, id FROM memory WHERE owner = ?1 AND id = ?2", params![owner, id])
}

/// Returns all memories of an owner.
pub fn keys_of_owner(tx: &mut Tx<'_>, owner: i64) -> Result<Vec<MemoryKey>, StoreError> {
    tx.fetch_all("SELECT seq, id FROM memory WHERE owner = ?1", params![owner])
}

/// Returns the memories that `successor` superseded.
pub fn keys_of_successor(
    tx: &mut Tx<'_>,
    owner: i64,
    successor: &[u8],
) -> Result<Vec<MemoryKey>, StoreError> {
    let sql = "SELECT seq, id FROM memory WHERE owner = ?1 AND superseded_by = ?2";
    tx.fetch_all(sql, params![owner, successor])
}

/// Returns the memories that come from a session, or from one message of it.
pub fn keys_of_source(
    tx: &mut Tx<'_>,
    owner: i64,
    session: &str,
    message: Option<&str>,
) -> Result<Vec<MemoryKey>, StoreError> {
    let mut sql = "SELECT DISTINCT memory.seq, id FROM source JOIN memory USING (seq)
                   WHERE owner = ?1 AND session = ?2"
        .to_owned();
    let mut values = vec![owner.to_value(), session.to_value()];
    if let Some(message) = message {
        sql.push_str(" AND message = ?3");
        values.push(message.to_value());
    }
    tx.fetch_all(&sql, &values)
}
