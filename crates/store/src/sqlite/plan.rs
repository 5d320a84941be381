//! A look at how SQLite finds what a statement of the writer asks for. The statement waits for it, and everybody for the writer, so
//! one that looks through a whole table that grows with the work is a defect. Programs that are built for use do not look.

use rusqlite::Connection;

/// Tables that grow with the work.
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

/// What a statement says that may look through a whole table: nobody waits for it, or it is hardly ever needed.
const LOOKS_THROUGH_ALL: &str = "/* looks through all */";

/// The table that a statement looks through, if it must not. One without a condition means all of it.
pub(super) fn looked_through(
    connection: &Connection,
    sql: &str,
) -> rusqlite::Result<Option<String>> {
    if !cfg!(debug_assertions) || !sql.contains("WHERE") || sql.contains(LOOKS_THROUGH_ALL) {
        return Ok(None);
    }
    // What is no query has no plan.
    let Ok(mut plan) = connection.prepare(&format!("EXPLAIN QUERY PLAN {sql}")) else {
        return Ok(None);
    };
    let mut lines = plan.raw_query();
    while let Some(line) = lines.next()? {
        let line: String = line.get(3)?;
        // A scan of an index is one of what the index holds.
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

    use super::{LOOKS_THROUGH_ALL, looked_through};

    #[test]
    fn a_statement_that_looks_through_a_table_is_found() {
        let db = Connection::open_in_memory().unwrap();
        let tables =
            "CREATE TABLE run (id TEXT PRIMARY KEY, phase TEXT); CREATE TABLE kind (name TEXT);
            CREATE INDEX run_queued ON run(id) WHERE phase = 'queued'";
        db.execute_batch(tables).unwrap();
        let found = |sql: &str| looked_through(&db, sql).unwrap();
        assert_eq!(found("SELECT 1 FROM run WHERE phase = 'done'").unwrap(), "run");
        assert_eq!(found("SELECT 1 FROM run q WHERE q.phase = 'done'").unwrap(), "run");
        assert_eq!(found("DELETE FROM run WHERE phase = 'done'").unwrap(), "run");
        for fine in [
            "SELECT 1 FROM run WHERE id = ?1",
            "SELECT 1 FROM run WHERE phase = 'queued'",
            "SELECT name FROM kind WHERE name > ''",
            "DELETE FROM run",
            &format!("{LOOKS_THROUGH_ALL} SELECT 1 FROM run WHERE phase = 'done'"),
            "PRAGMA user_version",
        ] {
            assert_eq!(found(fine), None, "{fine}");
        }
    }
}
