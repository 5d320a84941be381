//! Rejects full table scans.
//!
//! Every write waits for the statement that the writer runs, so scanning a table that grows with the workload is a
//! defect. The check runs only in debug builds, once per statement text.

use std::cell::RefCell;
use std::collections::HashSet;

use rusqlite::Connection;

use crate::StoreError;

/// Tables that grow with the workload.
const GROWING: [&str; 9] = [
    "attempt",
    "idem",
    "input",
    "message",
    "run",
    "run_event",
    "run_step",
    "session_entry",
    "task",
];

/// Marks a statement that may scan a whole table because it runs rarely.
const ALLOW_FULL_SCAN: &str = "/* full scan */";

/// Rejects statements that scan a growing table.
#[derive(Default)]
pub(super) struct FullScanCheck {
    /// Statements that passed the check.
    checked: RefCell<HashSet<Box<str>>>,
}

impl FullScanCheck {
    /// Checks a statement. The inner error names the scanned table.
    pub(super) fn check(
        &self,
        connection: &Connection,
        sql: &str,
    ) -> rusqlite::Result<Result<(), StoreError>> {
        if !cfg!(debug_assertions) || self.checked.borrow().contains(sql) {
            return Ok(Ok(()));
        }
        if let Some(table) = scanned_table(connection, sql)? {
            return Ok(Err(StoreError::bug(format!("`{sql}` full scan of `{table}`"))));
        }
        self.checked.borrow_mut().insert(sql.into());
        Ok(Ok(()))
    }
}

/// Returns the growing table that a statement scans, unless the statement is marked. A statement without `WHERE`
/// means to read every row, so it passes.
fn scanned_table(connection: &Connection, sql: &str) -> rusqlite::Result<Option<String>> {
    if !sql.contains("WHERE") || sql.contains(ALLOW_FULL_SCAN) {
        return Ok(None);
    }
    // A pragma or a transaction statement has no plan.
    let Ok(mut plan) = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")) else {
        return Ok(None);
    };
    let mut lines = plan.raw_query();
    while let Some(line) = lines.next()? {
        let line: String = line.get(3)?;
        // A scan of a partial index reads only the rows of that index.
        let Some(name) = line.strip_prefix("SCAN ").filter(|name| !name.contains(' ')) else {
            continue;
        };
        let is_it = |table: &&str| *table == name || sql.contains(&format!("{table} {name}"));
        if let Some(table) = GROWING.into_iter().find(is_it) {
            return Ok(Some(table.to_owned()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::{ALLOW_FULL_SCAN, scanned_table};

    #[test]
    fn a_statement_that_looks_through_a_table_is_found() {
        let db = Connection::open_in_memory().unwrap();
        let tables =
            "CREATE TABLE run (id TEXT PRIMARY KEY, phase TEXT); CREATE TABLE kind (name TEXT);
            CREATE INDEX run_queued ON run(id) WHERE phase = 'queued'";
        db.execute_batch(tables).unwrap();
        let found = |sql: &str| scanned_table(&db, sql).unwrap();
        assert_eq!(found("SELECT 1 FROM run WHERE phase = 'done'").unwrap(), "run");
        assert_eq!(found("SELECT 1 FROM run q WHERE q.phase = 'done'").unwrap(), "run");
        assert_eq!(found("DELETE FROM run WHERE phase = 'done'").unwrap(), "run");
        for fine in [
            "SELECT 1 FROM run WHERE id = ?1",
            "SELECT 1 FROM run WHERE phase = 'queued'",
            "SELECT name FROM kind WHERE name > ''",
            "DELETE FROM run",
            &format!("{ALLOW_FULL_SCAN} SELECT 1 FROM run WHERE phase = 'done'"),
            "PRAGMA user_version",
        ] {
            assert_eq!(found(fine), None, "{fine}");
        }
    }
}
