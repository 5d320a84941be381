//! Parameters that SQLite reads where they are.
//!
//! Bound in the usual way each text is copied first, which for a row of fifty short columns is about as much work as to store it.
#![expect(unsafe_code, reason = "what rusqlite binds is always a copy")]

use std::ffi::{CStr, c_int};
use std::marker::PhantomData;
use std::ptr;

use rusqlite::Connection;
use rusqlite::ffi::{
    self, SQLITE_OK, SQLITE_STATIC, SQLITE_UTF8, sqlite3_bind_blob64, sqlite3_bind_int64,
    sqlite3_bind_text64, sqlite3_clear_bindings, sqlite3_next_stmt, sqlite3_sql, sqlite3_stmt,
};

use crate::value::Value;

/// A statement as SQLite itself knows it. It must not be used after the statement of rusqlite that it belongs to is gone.
pub(super) struct Raw(*mut sqlite3_stmt);

/// Parameters that are bound as long as this lives.
pub(super) struct Bound<'a> {
    statement: *mut sqlite3_stmt,
    _params: PhantomData<&'a [Value<'a>]>,
}

impl Raw {
    /// The statement that the connection has prepared last, if that has this text: SQLite lists the newest first.
    pub(super) fn newest(connection: &Connection, sql: &str) -> Option<Self> {
        // SAFETY: the connection is open, and what it lists are its statements, which have a text until they are finalized.
        unsafe {
            let statement = sqlite3_next_stmt(connection.handle(), ptr::null_mut());
            if statement.is_null() {
                return None;
            }
            let text = sqlite3_sql(statement);
            let is_it = !text.is_null() && CStr::from_ptr(text).to_bytes() == sql.as_bytes();
            is_it.then_some(Self(statement))
        }
    }

    /// Binds parameters to a statement that has none and that is not under way; what is nothing stays unbound.
    pub(super) fn bind<'a>(&'a self, params: &'a [Value<'a>]) -> rusqlite::Result<Bound<'a>> {
        // From here on: what was bound before one of them failed is taken out again, too.
        let bound = Bound { statement: self.0, _params: PhantomData };
        for (place, param) in (1..).zip(params) {
            // SAFETY: the statement is there as long as `self` may be used. What it is given stays where it is as long as
            // `bound` lives, at whose end nothing is bound any more.
            let code = unsafe { bind(self.0, place, param) };
            if code != SQLITE_OK {
                return Err(rusqlite::Error::SqliteFailure(ffi::Error::new(code), None));
            }
        }
        Ok(bound)
    }
}

impl Drop for Bound<'_> {
    fn drop(&mut self) {
        // SAFETY: the statement outlives the parameters; whoever ran it has reset it, so it reads them no more.
        unsafe { sqlite3_clear_bindings(self.statement) };
    }
}

/// # Safety
/// The statement must not be finalized, and must not be run once the parameter is gone.
unsafe fn bind(statement: *mut sqlite3_stmt, place: c_int, param: &Value<'_>) -> c_int {
    let text = |text: &str| {
        let (bytes, encoding) = (text.as_ptr().cast(), SQLITE_UTF8 as u8);
        // SAFETY: as above.
        unsafe {
            sqlite3_bind_text64(
                statement,
                place,
                bytes,
                text.len() as u64,
                SQLITE_STATIC(),
                encoding,
            )
        }
    };
    match param {
        Value::Null => SQLITE_OK,
        // SAFETY: as above.
        Value::Int(number) => unsafe { sqlite3_bind_int64(statement, place, *number) },
        Value::Text(value) => text(value),
        Value::Id(id) => text(id.as_str()),
        // SAFETY: as above.
        Value::Bytes(bytes) => unsafe {
            let (start, length) = (bytes.as_ptr().cast(), bytes.len() as u64);
            sqlite3_bind_blob64(statement, place, start, length, SQLITE_STATIC())
        },
    }
}
