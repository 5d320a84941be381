//! A connection with the statements that it has prepared so far, for whoever has it for long.
//!
//! The connection keeps statements, too; but it takes each one out of its cache by its text and puts it back under a new copy
//! of that, which costs about as much as to run a small one.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use rusqlite::{PrepFlags, Statement};

use super::{Sqlite, bind, walk};
use crate::StoreError;
use crate::sql::Sql;
use crate::value::{Flow, Row, Value};

/// Statements that are kept. The writer has fewer; some that are put together anew each time may come on top.
const STATEMENTS_MAX: usize = 512;

/// A connection and its statements.
pub(crate) struct Prepared<'c> {
    db: &'c Sqlite,
    /// Where a statement is, by its text.
    places: HashMap<Box<str>, usize, BuildHasherDefault<EndHasher>>,
    statements: Vec<Statement<'c>>,
}

impl<'c> Prepared<'c> {
    pub(crate) fn new(db: &'c Sqlite) -> Self {
        Self { db, places: HashMap::default(), statements: Vec::new() }
    }

    fn statement(&mut self, sql: &str) -> rusqlite::Result<&mut Statement<'c>> {
        let place = match self.places.get(sql) {
            Some(place) => *place,
            None => {
                if self.statements.len() >= STATEMENTS_MAX {
                    self.places.clear();
                    self.statements.clear();
                }
                let flags = PrepFlags::SQLITE_PREPARE_PERSISTENT;
                self.statements.push(self.db.connection.prepare_with_flags(sql, flags)?);
                self.places.insert(sql.into(), self.statements.len() - 1);
                self.statements.len() - 1
            }
        };
        Ok(&mut self.statements[place])
    }

    fn used<T>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
        make: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let db = self.db;
        let used = self.statement(sql).and_then(|statement| {
            let made = bind(statement, sql, params).and_then(|bound| match bound {
                Ok(()) => make(statement),
                Err(error) => Ok(Err(error)),
            });
            // What was bound may be large, and what the next one does not bind must be nothing.
            statement.clear_bindings();
            made
        });
        db.remember(used)
    }
}

impl Sql for Prepared<'_> {
    fn execute(&mut self, sql: &str, params: &[Value<'_>]) -> Result<u64, StoreError> {
        self.used(sql, params, |statement| Ok(Ok(statement.raw_execute()? as u64)))
    }

    fn query(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
        each: &mut dyn FnMut(&mut Row<'_>) -> Flow,
    ) -> Result<(), StoreError> {
        self.used(sql, params, |statement| walk(statement, each))
    }
}

/// Looks at the end of a text only: statements differ there or in their length, as a rule, and are compared as a whole then.
#[derive(Default)]
struct EndHasher(u64);

impl EndHasher {
    /// Pieces of eight bytes that are looked at.
    const PIECES: usize = 6;
    /// Odd, with bits everywhere.
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

    fn add(&mut self, number: u64) {
        self.0 = (self.0.rotate_left(5) ^ number).wrapping_mul(Self::FACTOR);
    }
}

impl Hasher for EndHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.add(bytes.len() as u64);
        let mut rest = bytes;
        for _ in 0..Self::PIECES {
            let Some((before, piece)) = rest.split_last_chunk::<8>() else { break };
            self.add(u64::from_ne_bytes(*piece));
            rest = before;
        }
    }

    fn finish(&self) -> u64 {
        // The upper bits are the good ones, and a table looks at the lower ones, too.
        self.0 ^ self.0 >> 32
    }
}
