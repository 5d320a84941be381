//! Memories and the messages they come from.

use provost_core::Timestamp;

use crate::{FromRow, Row, StoreError, ToColumn, Tx, Value, params};

const COLUMNS: &str =
    "seq, id, text, category, metadata, created_at, updated_at, valid_from, superseded_by";

/// A memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryRow {
    /// Its place in the file.
    pub seq: i64,
    /// The id.
    pub id: Vec<u8>,
    /// The text.
    pub text: String,
    /// The category.
    pub category: Option<String>,
    /// The metadata, as a JSON object.
    pub metadata: String,
    /// When it was added.
    pub created_at: Timestamp,
    /// When its text was last changed.
    pub updated_at: Timestamp,
    /// Since when it holds.
    pub valid_from: Timestamp,
    /// The id of the memory that replaced it.
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

/// How a memory is counted in the index of its owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexCount {
    /// The number of the owner.
    pub owner: i64,
    /// The change of the owner's memories that wrote it.
    pub change: i64,
    /// The number of words in the text.
    pub words: i64,
}

/// Names a memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryKey {
    /// Its place in the file.
    pub seq: i64,
    /// The id.
    pub id: Vec<u8>,
}

impl FromRow for MemoryKey {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { seq: row.take()?, id: row.take()? })
    }
}

/// A message that a memory comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceRow {
    /// The session, or the run.
    pub session: String,
    /// The digest of the message.
    pub message: String,
}

impl FromRow for SourceRow {
    fn from_row(row: &mut Row<'_>) -> Result<Self, StoreError> {
        Ok(Self { session: row.take()?, message: row.take()? })
    }
}

/// Conditions on memories.
#[derive(Debug, Clone, Default)]
pub struct MemoryFilter<'a> {
    /// Only memories of this category.
    pub category: Option<&'a str>,
    /// Only memories that hold since then or later.
    pub since: Option<Timestamp>,
    /// True for superseded memories, too.
    pub history: bool,
}

impl MemoryFilter<'_> {
    fn narrow<'v>(&'v self, sql: &mut String, values: &mut Vec<Value<'v>>) {
        if !self.history {
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

/// The memory with an id.
pub fn find(tx: &mut Tx<'_>, owner: i64, id: &[u8]) -> Result<Option<MemoryRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM memory WHERE owner = ?1 AND id = ?2");
    tx.optional(&sql, params![owner, id])
}

/// The memory at a place in the file, if it is the owner's.
pub fn at(tx: &mut Tx<'_>, owner: i64, seq: i64) -> Result<Option<MemoryRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} FROM memory WHERE owner = ?1 AND seq = ?2");
    tx.optional(&sql, params![owner, seq])
}

/// Memories from the newest to the oldest, at most `limit` of them, older than the memory `after`.
pub fn newest(
    tx: &mut Tx<'_>,
    owner: i64,
    filter: &MemoryFilter<'_>,
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
    tx.all(&sql, &values)
}

/// The places of an owner's memories.
pub fn places(
    tx: &mut Tx<'_>,
    owner: i64,
    filter: &MemoryFilter<'_>,
) -> Result<Vec<i64>, StoreError> {
    let mut sql = "SELECT seq FROM memory WHERE owner = ?1".to_owned();
    let mut values = vec![owner.to_value()];
    filter.narrow(&mut sql, &mut values);
    tx.all(&sql, &values)
}

/// The number of memories that are not superseded.
pub fn count(tx: &mut Tx<'_>, owner: i64) -> Result<u64, StoreError> {
    let sql = "SELECT count(*) FROM memory WHERE owner = ?1 AND superseded_by IS NULL";
    tx.one(sql, params![owner])
}

/// Inserts a memory, whatever its `seq` is, and returns its place in the file.
pub fn insert(tx: &mut Tx<'_>, row: &MemoryRow, count: IndexCount) -> Result<i64, StoreError> {
    tx.one(
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

/// Writes the text, category, metadata and time of change of a memory.
pub fn update(tx: &mut Tx<'_>, row: &MemoryRow, count: IndexCount) -> Result<(), StoreError> {
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

/// Marks a memory as replaced by another one.
pub fn supersede(
    tx: &mut Tx<'_>,
    seq: i64,
    successor: &[u8],
    change: i64,
) -> Result<(), StoreError> {
    let sql = "UPDATE memory SET superseded_by = ?2, change = ?3 WHERE seq = ?1";
    tx.execute(sql, params![seq, successor, change]).map(drop)
}

/// Deletes a memory with its sources.
pub fn delete(tx: &mut Tx<'_>, seq: i64) -> Result<(), StoreError> {
    tx.execute("DELETE FROM source WHERE seq = ?1", params![seq])?;
    tx.execute("DELETE FROM memory WHERE seq = ?1", params![seq]).map(drop)
}

/// The messages that a memory comes from.
pub fn sources(tx: &mut Tx<'_>, seq: i64) -> Result<Vec<SourceRow>, StoreError> {
    let sql = "SELECT session, message FROM source WHERE seq = ?1 ORDER BY 1, 2";
    tx.all(sql, params![seq])
}

/// Adds a message that a memory comes from.
pub fn add_source(tx: &mut Tx<'_>, seq: i64, source: &SourceRow) -> Result<(), StoreError> {
    let sql =
        "INSERT INTO source (seq, session, message) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING";
    tx.execute(sql, params![seq, source.session, source.message]).map(drop)
}

/// The memory with an id, as a list.
pub fn keys_of_id(tx: &mut Tx<'_>, owner: i64, id: &[u8]) -> Result<Vec<MemoryKey>, StoreError> {
    tx.all("SELECT seq, id FROM memory WHERE owner = ?1 AND id = ?2", params![owner, id])
}

/// All memories of an owner.
pub fn keys_of_owner(tx: &mut Tx<'_>, owner: i64) -> Result<Vec<MemoryKey>, StoreError> {
    tx.all("SELECT seq, id FROM memory WHERE owner = ?1", params![owner])
}

/// The memories that a memory replaced.
pub fn keys_of_successor(
    tx: &mut Tx<'_>,
    owner: i64,
    successor: &[u8],
) -> Result<Vec<MemoryKey>, StoreError> {
    let sql = "SELECT seq, id FROM memory WHERE owner = ?1 AND superseded_by = ?2";
    tx.all(sql, params![owner, successor])
}

/// The memories that come from a session, or only from one message of it.
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
    tx.all(&sql, &values)
}
