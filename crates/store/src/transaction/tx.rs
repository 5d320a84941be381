//! The narrow database interface: a trait with two methods, and [`Tx`] on top of it.
//!
//! All code that changes rows is a plain function over [`Tx`]. Statements must be portable SQL: numbered `?1`
//! parameters, `ON CONFLICT`, `RETURNING`.

use std::ops::ControlFlow;

use provost_core::{Env, Timestamp, TypedId, Usage};

use crate::stats::ChangeCounts;
use crate::transaction::aggregate::RowKey;
use crate::transaction::check::{Check, Fence, Statement};
use crate::transaction::ids::DrawnIds;
use crate::transaction::lock::{Lockable, Locked};
use crate::transaction::value::{FromRow, Row, RowControl, Value};
use crate::{StoreError, Wakeup};

/// Executes statements inside a transaction.
pub trait SqlExecutor {
    /// Executes a statement and returns the number of changed rows.
    fn execute(&mut self, sql: &str, params: &[Value<'_>]) -> Result<u64, StoreError>;

    /// Executes a query and calls `each` for every row until `each` returns `Break`.
    fn query(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
        each: &mut dyn FnMut(&mut Row<'_>) -> RowControl,
    ) -> Result<(), StoreError>;
}

/// State of one attempt of a transaction function: its time, ids, wake-ups and check.
pub(crate) struct TxAttempt {
    now: Timestamp,
    ids: DrawnIds,
    /// Wake-ups to send after the commit.
    pub(crate) wakeups: Vec<Wakeup>,
    /// Changes to count after the commit.
    pub(crate) changes: ChangeCounts,
    /// The rules that the attempt must follow; `None` if transactions are not checked.
    check: Option<Check>,
}

impl TxAttempt {
    /// Creates the first attempt of a job.
    pub(crate) fn new(env: &Env) -> Self {
        Self {
            now: env.now(),
            ids: DrawnIds::new(env.clone()),
            wakeups: Vec::new(),
            changes: ChangeCounts::default(),
            check: None,
        }
    }

    /// Enables the check.
    pub(crate) fn checked(self) -> Self {
        Self { check: Some(Check::default()), ..self }
    }

    /// Creates the next attempt of the same job, with the same time and ids.
    pub(crate) fn again(self) -> Self {
        let Self { now, mut ids, check, .. } = self;
        ids.rewind();
        let changes = ChangeCounts::default();
        Self { now, ids, wakeups: Vec::new(), changes, check: check.map(Check::again) }
    }

    /// Returns an error if the attempt is checked and made fewer changes than the previous one.
    pub(crate) fn finish(&self) -> Result<(), StoreError> {
        self.check.as_ref().map_or(Ok(()), Check::finish)
    }
}

/// An open transaction.
pub struct Tx<'a> {
    sql: &'a mut dyn SqlExecutor,
    attempt: &'a mut TxAttempt,
}

impl<'a> Tx<'a> {
    /// Creates a transaction of one attempt of a job.
    pub(crate) fn new(sql: &'a mut dyn SqlExecutor, attempt: &'a mut TxAttempt) -> Self {
        Self { sql, attempt }
    }

    /// Returns the time of the database's clock. It is constant during a transaction and in every attempt of it.
    ///
    /// Leases, expiries and due times depend on this clock and never on the clock of a worker.
    pub fn now(&self) -> Timestamp {
        self.attempt.now
    }

    /// Generates an id. Every attempt of the transaction gets the same ids.
    pub fn id<T: TypedId>(&mut self) -> T {
        self.attempt.ids.draw()
    }

    /// Sends a wake-up after the commit. Wake-ups may be lost; receivers must read the database.
    pub fn wake(&mut self, wakeup: Wakeup) {
        self.attempt.wakeups.push(wakeup);
    }

    /// Counts an event of this kind after the commit.
    pub(crate) fn count_event(&mut self, kind: &str) {
        self.attempt.changes.event(kind);
    }

    /// Counts the end of a run after the commit.
    pub fn count_ended_run(&mut self, agent: &str, cost_micros: u64, usage: Usage) {
        self.attempt.changes.ended_run(agent, cost_micros, usage);
    }

    /// Executes a statement and returns the number of changed rows. Rows that it updates must be locked.
    pub fn execute(&mut self, sql: &str, params: &[Value<'_>]) -> Result<u64, StoreError> {
        self.run(Statement { text: sql, params, fence: Fence::Locks })
    }

    /// Executes a statement like [`Tx::execute`], without locked rows: the statement carries its own fence. Its `SET`
    /// is relative or constant, or its `WHERE` repeats every fact that the caller read. The statement locks the rows
    /// that it changes.
    pub fn execute_fenced(&mut self, sql: &str, params: &[Value<'_>]) -> Result<u64, StoreError> {
        self.run(Statement { text: sql, params, fence: Fence::Statement })
    }

    /// Executes a statement like [`Tx::execute_fenced`] and returns its first row. `None` if there is none.
    pub fn fetch_optional_fenced<T: FromRow>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
    ) -> Result<Option<T>, StoreError> {
        self.first(Statement { text: sql, params, fence: Fence::Statement })
    }

    /// Executes a statement like [`Tx::execute_fenced`] and returns all rows.
    pub fn fetch_all_fenced<T: FromRow>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
    ) -> Result<Vec<T>, StoreError> {
        self.rows(Statement { text: sql, params, fence: Fence::Statement })
    }

    /// Reads and locks the row that the query selects.
    pub(crate) fn lock<T: Lockable>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
    ) -> Result<Option<Locked<T>>, StoreError> {
        let row = self.fetch_optional::<T>(sql, params)?;
        Ok(row.map(|row| self.locked(row)))
    }

    /// Reads and locks the rows that the query selects.
    pub(crate) fn lock_all<T: Lockable>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
    ) -> Result<Vec<Locked<T>>, StoreError> {
        let rows = self.fetch_all::<T>(sql, params)?;
        Ok(rows.into_iter().map(|row| self.locked(row)).collect())
    }

    /// Records that a row is locked and wraps it.
    fn locked<T: Lockable>(&mut self, row: T) -> Locked<T> {
        self.lock_key(T::TABLE, &row.key());
        Locked::new(row)
    }

    /// Locks the row with this primary key without reading it.
    pub(crate) fn lock_key(&mut self, table: &'static str, key: &[Value<'_>]) {
        if let Some(check) = &mut self.attempt.check {
            check.lock(RowKey::new(table, key));
        }
    }

    /// Returns an error if transactions are checked and the row with this primary key is not locked. For changes of
    /// other rows that the lock protects.
    pub(crate) fn require_lock(
        &self,
        table: &'static str,
        key: &[Value<'_>],
        change: &str,
    ) -> Result<(), StoreError> {
        let check = self.attempt.check.as_ref();
        check.map_or(Ok(()), |check| check.require(&RowKey::new(table, key), change))
    }

    /// Executes a statement that returns no rows, with the check of the attempt if there is one.
    fn run(&mut self, statement: Statement<'_>) -> Result<u64, StoreError> {
        match &mut self.attempt.check {
            Some(check) => {
                check.query(&mut *self.sql, statement, &mut |_| Ok(ControlFlow::Break(())))
            }
            None => self.sql.execute(statement.text, statement.params),
        }
    }

    /// Executes a query, with the check of the attempt if there is one.
    fn query(
        &mut self,
        statement: Statement<'_>,
        each: &mut dyn FnMut(&mut Row<'_>) -> RowControl,
    ) -> Result<(), StoreError> {
        match &mut self.attempt.check {
            Some(check) => check.query(&mut *self.sql, statement, each).map(drop),
            None => self.sql.query(statement.text, statement.params, each),
        }
    }

    /// Executes a query and returns all rows.
    fn rows<T: FromRow>(&mut self, statement: Statement<'_>) -> Result<Vec<T>, StoreError> {
        let mut rows = Vec::new();
        self.query(statement, &mut |row| {
            rows.push(T::from_row(row)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(rows)
    }

    /// Executes a query and returns its first row. `None` if there is none.
    fn first<T: FromRow>(&mut self, statement: Statement<'_>) -> Result<Option<T>, StoreError> {
        let mut found = None;
        self.query(statement, &mut |row| {
            found = Some(T::from_row(row)?);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }

    /// Returns the only row. A missing row is a defect of the caller.
    pub fn fetch_one<T: FromRow>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
    ) -> Result<T, StoreError> {
        self.fetch_optional(sql, params)?
            .ok_or_else(|| StoreError::bug(format!("a row was expected of `{sql}`")))
    }

    /// Returns the first row. `None` if there is none.
    pub fn fetch_optional<T: FromRow>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
    ) -> Result<Option<T>, StoreError> {
        self.first(Statement { text: sql, params, fence: Fence::Locks })
    }

    /// Returns all rows. The statement must bound their number.
    pub fn fetch_all<T: FromRow>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
    ) -> Result<Vec<T>, StoreError> {
        self.rows(Statement { text: sql, params, fence: Fence::Locks })
    }

    /// Returns rows up to and including the first one for which `enough` returns true.
    pub fn fetch_until<T: FromRow>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
        mut enough: impl FnMut(&T) -> bool,
    ) -> Result<Vec<T>, StoreError> {
        let mut rows = Vec::new();
        self.query(Statement { text: sql, params, fence: Fence::Locks }, &mut |row| {
            let row = T::from_row(row)?;
            let last = enough(&row);
            rows.push(row);
            Ok(if last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(rows)
    }

    /// Returns true if the query selects a row.
    pub fn exists(&mut self, sql: &str, params: &[Value<'_>]) -> Result<bool, StoreError> {
        let mut found = false;
        self.query(Statement { text: sql, params, fence: Fence::Locks }, &mut |_| {
            found = true;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }
}
