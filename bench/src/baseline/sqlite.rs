//! Baseline of the store: the commits per second of SQLite on this disk.

use std::path::Path;
use std::time::Instant;

use rusqlite::Connection;

use crate::Result;

/// Bytes of a row, similar to a step.
const ROW_BYTES: usize = 200;

/// Opens a database with the settings of the store: a write-ahead log, and commits that wait for the disk.
pub(crate) fn open(path: &Path) -> Result<Connection> {
    let connection = Connection::open(path)?;
    connection.execute_batch("PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;")?;
    Ok(connection)
}

/// Returns the commits per second, each of `rows` rows.
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
        // The first commit creates the log.
        if commit == 0 {
            started = Instant::now();
        }
    }
    Ok(commits as f64 / started.elapsed().as_secs_f64())
}
