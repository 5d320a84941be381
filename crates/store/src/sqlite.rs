//! The SQLite backend: connections and transactions.
//!
//! No module above this one depends on SQLite.

mod error;
pub(crate) mod job;
pub(crate) mod lock;
pub(crate) mod maintenance;
mod migrate;
mod open;
mod plan;
pub(crate) mod reader_pool;
mod schema;
mod session_schema;
#[cfg(test)]
mod tests;
pub(crate) mod write_queue;
pub(crate) mod writer;

use std::borrow::Cow;
use std::cell::RefCell;
use std::ops::ControlFlow;
use std::path::PathBuf;

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{CachedStatement, Connection, Statement};

use crate::StoreError;
use crate::transaction::tx::SqlExecutor;
use crate::transaction::value::{ColumnSource, Row, RowControl, Value};

use plan::FullScanCheck;

pub use migrate::SCHEMA_VERSION;

pub(crate) use migrate::ENGINE;
pub(crate) use open::{
    ConnectionRole, DatabaseIdentity, connect, create_file, identify, open_plain, open_read_only,
    prepare,
};

/// A connection to a database file.
pub(crate) struct Sqlite {
    connection: Connection,
    path: PathBuf,
    /// The last error. SQLite may roll back a whole transaction on its own, and a job may swallow the error that
    /// explains it.
    failure: RefCell<Option<StoreError>>,
    /// Rejects full table scans; `None` if the connection may run them.
    scan_check: Option<FullScanCheck>,
}

impl Sqlite {
    /// Wraps an open connection. `path` is for errors.
    pub(crate) fn new(connection: Connection, path: PathBuf) -> Self {
        Self { connection, path, failure: RefCell::default(), scan_check: None }
    }

    /// Enables the check that rejects statements that scan a whole table that grows with the workload.
    fn with_scan_check(mut self) -> Self {
        self.scan_check = Some(FullScanCheck::default());
        self
    }

    /// Returns the underlying connection, for functions that only SQLite has.
    pub(crate) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Returns the underlying connection, as the target of a copy.
    pub(crate) fn connection_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }

    /// Starts a write transaction. Waits at most the busy timeout for other processes.
    pub(crate) fn begin_write(&self) -> Result<(), StoreError> {
        self.failure.take();
        if !self.connection.is_autocommit() {
            // An earlier rollback failed. Its leftovers must not become part of this transaction.
            self.run("ROLLBACK")?;
        }
        self.run("BEGIN IMMEDIATE")
    }

    /// Starts a read transaction on one snapshot of the database.
    pub(crate) fn begin_read(&self) -> Result<(), StoreError> {
        self.run("BEGIN")
    }

    /// Commits the transaction.
    pub(crate) fn commit(&self) -> Result<(), StoreError> {
        self.run("COMMIT")
    }

    /// Rolls the transaction back, if there is one.
    pub(crate) fn rollback(&self) -> Result<(), StoreError> {
        if self.connection.is_autocommit() { Ok(()) } else { self.run("ROLLBACK") }
    }

    /// Starts the savepoint of a job.
    pub(crate) fn savepoint(&self) -> Result<(), StoreError> {
        self.run("SAVEPOINT job")
    }

    /// Ends the savepoint and keeps its changes in the transaction.
    pub(crate) fn release(&self) -> Result<(), StoreError> {
        self.run("RELEASE job")
    }

    /// Undoes the changes since the savepoint and ends it.
    pub(crate) fn rollback_to_savepoint(&self) -> Result<(), StoreError> {
        self.run("ROLLBACK TO job")?;
        self.release()
    }

    /// Returns the cause if SQLite has rolled back the transaction on its own.
    pub(crate) fn lost_transaction(&self) -> Option<StoreError> {
        self.connection.is_autocommit().then(|| {
            self.failure.take().unwrap_or_else(|| StoreError::bug("a transaction ended by itself"))
        })
    }

    /// Executes a statement without parameters.
    pub(crate) fn run(&self, sql: &str) -> Result<(), StoreError> {
        self.cached(sql, &[], |statement| Ok(Ok(statement.raw_execute()?))).map(drop)
    }

    /// Executes several statements without caching them.
    pub(crate) fn batch(&self, sql: &str) -> Result<(), StoreError> {
        self.connection.execute_batch(sql).map_err(|error| self.fault(error))
    }

    /// Returns the number that a pragma or query yields.
    pub(crate) fn number(&self, sql: &str) -> Result<i64, StoreError> {
        self.connection.query_row(sql, [], |row| row.get(0)).map_err(|error| self.fault(error))
    }

    /// Returns the text that a pragma or query yields.
    pub(crate) fn text(&self, sql: &str) -> Result<String, StoreError> {
        self.connection.query_row(sql, [], |row| row.get(0)).map_err(|error| self.fault(error))
    }

    /// Converts an error of SQLite. The error names the database file.
    pub(crate) fn fault(&self, error: rusqlite::Error) -> StoreError {
        error::translate(error, &self.path)
    }

    /// Executes a statement of the connection's statement cache.
    fn cached<T>(
        &self,
        sql: &str,
        params: &[Value<'_>],
        make: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        if let Some(check) = &self.scan_check {
            check.check(&self.connection, sql).map_err(|error| self.fault(error))??;
        }
        let used =
            self.connection.prepare_cached(sql).and_then(|mut statement: CachedStatement<'_>| {
                match bind(&mut statement, sql, params)? {
                    Ok(()) => make(&mut statement),
                    Err(error) => Ok(Err(error)),
                }
            });
        self.remember(used)
    }

    /// Converts an error of SQLite and keeps it, so that [`Sqlite::lost_transaction`] can return the cause.
    fn remember<T>(
        &self,
        result: rusqlite::Result<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        match result {
            Ok(result) => result,
            Err(error) => {
                let error = self.fault(error);
                self.failure.replace(Some(error.clone()));
                Err(error)
            }
        }
    }
}

impl SqlExecutor for &Sqlite {
    fn execute(&mut self, sql: &str, params: &[Value<'_>]) -> Result<u64, StoreError> {
        self.cached(sql, params, |statement| Ok(Ok(statement.raw_execute()? as u64)))
    }

    fn query(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
        each: &mut dyn FnMut(&mut Row<'_>) -> RowControl,
    ) -> Result<(), StoreError> {
        self.cached(sql, params, |statement| walk(statement, each))
    }
}

impl SqlExecutor for Sqlite {
    fn execute(&mut self, sql: &str, params: &[Value<'_>]) -> Result<u64, StoreError> {
        (&*self).execute(sql, params)
    }

    fn query(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
        each: &mut dyn FnMut(&mut Row<'_>) -> RowControl,
    ) -> Result<(), StoreError> {
        (&*self).query(sql, params, each)
    }
}

/// Binds the parameters of a cached statement. Cached statements have no bound parameters, so a null stays unbound.
/// The inner error is a defect of the caller.
fn bind(
    statement: &mut Statement<'_>,
    sql: &str,
    params: &[Value<'_>],
) -> rusqlite::Result<Result<(), StoreError>> {
    if let Err(error) = check_count(statement, sql, params) {
        return Ok(Err(error));
    }
    for (index, param) in params.iter().enumerate() {
        if !matches!(param, Value::Null) {
            statement.raw_bind_parameter(index + 1, param)?;
        }
    }
    Ok(Ok(()))
}

/// Compares the number of parameters with the statement; a mismatch is a defect of the caller.
fn check_count(
    statement: &Statement<'_>,
    sql: &str,
    params: &[Value<'_>],
) -> Result<(), StoreError> {
    let (wanted, given) = (statement.parameter_count(), params.len());
    if wanted == given {
        return Ok(());
    }
    Err(StoreError::bug(format!("`{sql}` takes {wanted} parameters, {given} were given")))
}

/// Calls `each` for every row until it returns `Break`. The inner error is the error of `each`.
fn walk(
    statement: &mut Statement<'_>,
    each: &mut dyn FnMut(&mut Row<'_>) -> RowControl,
) -> rusqlite::Result<Result<(), StoreError>> {
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        match each(&mut Row::new(row)) {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => break,
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(()))
}

impl ColumnSource for rusqlite::Row<'_> {
    fn cell(&self, index: usize) -> Result<Value<'_>, StoreError> {
        let value = self.get_ref(index).map_err(|error| StoreError::bug(error.to_string()))?;
        Ok(match value {
            ValueRef::Null => Value::Null,
            ValueRef::Integer(number) => Value::Int(number),
            ValueRef::Text(text) => Value::Text(Cow::Borrowed(utf8(text)?)),
            ValueRef::Blob(bytes) => Value::Bytes(Cow::Borrowed(bytes)),
            ValueRef::Real(number) => {
                return Err(StoreError::bug(format!("an answer holds the fraction {number}")));
            }
        })
    }
}

/// Returns stored bytes as text. Fails if they are not UTF-8.
fn utf8(text: &[u8]) -> Result<&str, StoreError> {
    std::str::from_utf8(text)
        .map_err(|error| StoreError::Corrupt { detail: format!("a text is not UTF-8: {error}") })
}

impl ToSql for Value<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Null => ValueRef::Null,
            Self::Int(number) => ValueRef::Integer(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Bytes(bytes) => ValueRef::Blob(bytes),
        }))
    }
}
