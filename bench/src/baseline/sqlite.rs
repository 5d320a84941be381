//! The yardstick under everything durable: how often SQLite itself commits on this disk.

use std::path::Path;
use std::time::Instant;

use rusqlite::Connection;

use crate::Result;

/// Bytes of a row, about what a step needs.
const ROW_BYTES: usize = 200;

/// Opens a database as everything here is opened: a write-ahead log, and a commit waits for the disk.
pub(crate) fn open(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
    Ok(connection)
}

/// Commits in a second, each of so many rows.
pub(crate) fn commits_per_second(dir: &Path, rows: usize, commits: usize) -> Result<f64> {
    let mut connection = open(&dir.join(format!("raw-{rows}.db")))?;
    connection.execute_batch("CREATE TABLE step (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")?;
    let body = "x".repeat(ROW_BYTES);
    let mut started = Instant::now();
    for commit in 0..=commits {
        let transaction = connection.transaction()?;
        for _ in 0..rows {
            transaction.prepare_cached("INSERT INTO step (body) VALUES (?1)")?.execute([&body])?;
        }
        transaction.commit()?;
        // The first commit makes the log.
        if commit == 0 {
            started = Instant::now();
        }
    }
    Ok(commits as f64 / started.elapsed().as_secs_f64())
}
