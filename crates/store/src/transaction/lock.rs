//! Locked rows and their narrow updates.

use std::ops::{Deref, DerefMut};

use crate::transaction::value::{FromRow, Value};
use crate::{StoreError, Tx};

/// A row type whose rows are locked before they are changed.
pub trait Lockable: FromRow + Clone {
    /// Name of the table.
    const TABLE: &'static str;
    /// Column names in field order.
    const COLUMNS: &'static [&'static str];
    /// Columns of the primary key.
    const KEY: &'static [&'static str];
    /// Counter columns. Only dedicated statements raise them; [`Locked::save`] skips them.
    const COUNTERS: &'static [&'static str];

    /// Values in field order.
    fn values(&self) -> Vec<Value<'_>>;

    /// Values of the primary key.
    fn key(&self) -> Vec<Value<'_>> {
        let is_key = |(column, value)| Self::KEY.contains(column).then_some(value);
        Self::COLUMNS.iter().zip(self.values()).filter_map(is_key).collect()
    }
}

/// A row that the transaction has locked: no other transaction changes it before this one ends.
///
/// Callers change fields in memory. [`Locked::save`] updates only the columns that differ from the row as it was
/// read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Locked<T> {
    row: T,
    stored: T,
}

impl<T> Deref for Locked<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.row
    }
}

impl<T> DerefMut for Locked<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.row
    }
}

impl<T: Lockable> Locked<T> {
    /// Wraps a row that was just read under its lock.
    pub(crate) fn new(row: T) -> Self {
        Self { stored: row.clone(), row }
    }

    /// Returns the row with its unsaved changes.
    pub fn into_row(self) -> T {
        self.row
    }

    /// Updates the columns that changed since the row was locked or last saved.
    pub fn save(&mut self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        let (mut set, mut found, mut params) = (Vec::new(), Vec::new(), Vec::new());
        let before = self.stored.values();
        for ((column, value), old) in T::COLUMNS.iter().zip(self.row.values()).zip(before) {
            let terms = match T::KEY.contains(column) {
                true if value != old => {
                    return Err(StoreError::bug(format!(
                        "the key of a `{}` was changed",
                        T::TABLE
                    )));
                }
                true => &mut found,
                false if value == old || T::COUNTERS.contains(column) => continue,
                false => &mut set,
            };
            params.push(value);
            terms.push(format!("{column} = ?{}", params.len()));
        }
        if set.is_empty() {
            return Ok(());
        }
        let sql =
            format!("UPDATE {} SET {} WHERE {}", T::TABLE, set.join(", "), found.join(" AND "));
        if tx.execute(&sql, &params)? != 1 {
            return Err(StoreError::bug(format!("a locked row is gone: `{sql}`")));
        }
        self.stored = self.row.clone();
        Ok(())
    }
}
