//! The narrow door to a database: two methods, and on top of them what transactions are written with.
//!
//! Everything that changes rows is a plain function over [`Tx`], written once for every database.
//! Only portable SQL goes through here: numbered `?1` parameters, `ON CONFLICT`, `RETURNING`.

use std::ops::ControlFlow;

use provost_core::Timestamp;

use crate::transaction::value::{Flow, FromRow, Row, Value};
use crate::{Hint, StoreError};

/// What a database must be able to do inside a transaction.
pub trait Sql {
    /// Runs a statement and returns how many rows it changed.
    fn execute(&mut self, sql: &str, params: &[Value<'_>]) -> Result<u64, StoreError>;

    /// Runs a query and hands each row to `each`, until that says to stop.
    fn query(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
        each: &mut dyn FnMut(&mut Row<'_>) -> Flow,
    ) -> Result<(), StoreError>;
}

/// What happens once a transaction is committed.
#[derive(Default)]
pub(crate) struct Afterwards {
    pub(crate) hints: Vec<Hint>,
}

/// A transaction that is under way.
pub struct Tx<'a> {
    sql: &'a mut dyn Sql,
    now: Timestamp,
    afterwards: &'a mut Afterwards,
}

impl<'a> Tx<'a> {
    pub(crate) fn new(
        sql: &'a mut dyn Sql,
        now: Timestamp,
        afterwards: &'a mut Afterwards,
    ) -> Self {
        Self { sql, now, afterwards }
    }

    /// The time by the database's clock, the same during the whole transaction.
    ///
    /// Every lease, expiry and due date is decided by it and never by the clock of a worker.
    pub fn now(&self) -> Timestamp {
        self.now
    }

    /// Sends the hint once the transaction is committed. It may be lost and is never the truth.
    pub fn hint(&mut self, hint: Hint) {
        self.afterwards.hints.push(hint);
    }

    /// Runs a statement and returns how many rows it changed.
    pub fn execute(&mut self, sql: &str, params: &[Value<'_>]) -> Result<u64, StoreError> {
        self.sql.execute(sql, params)
    }

    /// The only row; that there is none is a defect of the caller.
    pub fn one<T: FromRow>(&mut self, sql: &str, params: &[Value<'_>]) -> Result<T, StoreError> {
        self.optional(sql, params)?
            .ok_or_else(|| StoreError::bug(format!("a row was expected of `{sql}`")))
    }

    /// The first row, if there is one.
    pub fn optional<T: FromRow>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
    ) -> Result<Option<T>, StoreError> {
        let mut found = None;
        self.sql.query(sql, params, &mut |row| {
            found = Some(T::from_row(row)?);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }

    /// Every row. The statement must bound their number.
    pub fn all<T: FromRow>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
    ) -> Result<Vec<T>, StoreError> {
        let mut rows = Vec::new();
        self.sql.query(sql, params, &mut |row| {
            rows.push(T::from_row(row)?);
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(rows)
    }

    /// Rows up to and with the first one that is enough.
    pub fn until<T: FromRow>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
        mut enough: impl FnMut(&T) -> bool,
    ) -> Result<Vec<T>, StoreError> {
        let mut rows = Vec::new();
        self.sql.query(sql, params, &mut |row| {
            let row = T::from_row(row)?;
            let last = enough(&row);
            rows.push(row);
            Ok(if last { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        Ok(rows)
    }

    /// True if there is a row.
    pub fn exists(&mut self, sql: &str, params: &[Value<'_>]) -> Result<bool, StoreError> {
        let mut found = false;
        self.sql.query(sql, params, &mut |_| {
            found = true;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(found)
    }
}
