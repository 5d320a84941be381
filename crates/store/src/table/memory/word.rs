//! Full-text index of memories (FTS5).

use crate::{StoreError, Tx, params};

/// Adds the words of a memory, separated by spaces.
pub fn add(tx: &mut Tx<'_>, seq: i64, words: &str) -> Result<(), StoreError> {
    tx.execute("INSERT INTO word (rowid, words) VALUES (?1, ?2)", params![seq, words]).map(drop)
}

/// Removes the words of a memory. The index does not store them, so `words` must equal the added words.
pub fn remove(tx: &mut Tx<'_>, seq: i64, words: &str) -> Result<(), StoreError> {
    let sql = "INSERT INTO word (word, rowid, words) VALUES ('delete', ?1, ?2)";
    tx.execute(sql, params![seq, words]).map(drop)
}

/// Returns the row numbers of at most `limit` memories that contain a word.
pub fn row_numbers(tx: &mut Tx<'_>, word: &str, limit: usize) -> Result<Vec<i64>, StoreError> {
    let sql = "SELECT rowid FROM word WHERE word MATCH ?1 LIMIT ?2";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    tx.fetch_all(sql, params![format!("\"{word}\""), limit])
}
