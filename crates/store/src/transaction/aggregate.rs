//! Aggregates: the mapping from a table to the lock that protects its rows.

use std::fmt;

use crate::StoreError;
use crate::transaction::value::{Row, Value};

/// Rows of one table that one lock protects.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Aggregate {
    table: &'static str,
    /// The table of the locked row.
    root: &'static str,
    /// The columns of `table` that identify the locked row.
    key: &'static [&'static str],
}

/// All tables whose rows are updated, with the lock of each.
const AGGREGATES: &[Aggregate] = &[
    of("session", "session", &["namespace", "id"]),
    of("session_entry", "session", &["namespace", "session_id"]),
    of("task", "task", &["id"]),
    of("input", "task", &["task_id"]),
    of("run", "run", &["id"]),
    of("run_step", "run", &["run_id"]),
    of("attempt", "run", &["run_id"]),
    of("approval", "run", &["run_id"]),
    of("exec_class", "exec_class", &["key"]),
    of("ceiling", "ceiling", &["scope"]),
    of("budget", "budget", &["namespace", "scope"]),
    of("outbox", "outbox", &["id"]),
    of("delivery", "delivery", &["id"]),
    of("webhook", "webhook", &["id"]),
    of("webhook_post", "webhook_post", &["id"]),
    of("schedule", "schedule", &["namespace", "id"]),
    of("run_dependency", "run_dependency", &["join_id", "place"]),
    of("agent", "agent", &["namespace", "name", "revision"]),
    of("idem", "idem", &["namespace", "scope", "idem_key"]),
    of("boot", "boot", &["id"]),
    of("message", "message", &["id"]),
    of("meta", "meta", &["key"]),
    of("secret", "secret", &["namespace", "name", "item"]),
    of("token", "token", &["id"]),
    of("worker", "worker", &["id"]),
];

/// Creates an aggregate.
const fn of(table: &'static str, root: &'static str, key: &'static [&'static str]) -> Aggregate {
    Aggregate { table, root, key }
}

/// Identifies a locked row.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct RowKey {
    table: &'static str,
    key: String,
}

impl RowKey {
    /// Creates the key from the values of the primary key.
    pub(crate) fn new(table: &'static str, key: &[Value<'_>]) -> Self {
        let key: Vec<String> = key.iter().map(Value::text).collect();
        Self { table, key: key.join(" / ") }
    }
}

impl fmt::Display for RowKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the {} `{}`", self.table, self.key)
    }
}

impl Aggregate {
    /// Returns the aggregate of a table, if one is registered.
    pub(crate) fn find(table: &str) -> Option<Self> {
        AGGREGATES.iter().find(|aggregate| aggregate.table == table).copied()
    }

    /// Returns the aggregate of a table that is updated. Fails for an unregistered table, which is a defect.
    pub(crate) fn of(table: &str) -> Result<Self, StoreError> {
        Self::find(table)
            .ok_or_else(|| StoreError::bug(format!("no lock is known for the table `{table}`")))
    }

    /// Returns the aggregate of a table if its rows are aggregate roots.
    pub(crate) fn of_root(table: &str) -> Option<Self> {
        Self::find(table).filter(Self::is_root)
    }

    /// Returns true if each row of the table is its own lock.
    pub(crate) fn is_root(&self) -> bool {
        self.table == self.root
    }

    /// Extends the statement so that it returns the lock key before its other columns.
    pub(crate) fn returning(&self, sql: &str) -> String {
        let key = self.key.join(", ");
        match sql.rsplit_once("RETURNING ") {
            Some((change, columns)) => format!("{change}RETURNING {key}, {columns}"),
            None => format!("{sql} RETURNING {key}"),
        }
    }

    /// Reads the lock key from a row of the extended statement.
    pub(crate) fn row(&self, row: &mut Row<'_>) -> Result<RowKey, StoreError> {
        let key: Result<Vec<String>, StoreError> =
            self.key.iter().map(|_| row.next_value().map(|value| value.text())).collect();
        Ok(RowKey { table: self.root, key: key?.join(" / ") })
    }
}
