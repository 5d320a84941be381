//! A connection with the statements that it has prepared so far, for whoever has it for long.
//!
//! The connection keeps statements, too; but it takes each one out of its cache by its text and puts it back under a new copy
//! of that, which costs about as much as to run a small one.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use rusqlite::{PrepFlags, Statement};

use super::borrowed::Raw;
use super::plan;
use super::{Sqlite, check_count, walk};
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
    statements: Vec<Kept<'c>>,
}

/// A statement, twice: to run it and to bind to it.
struct Kept<'c> {
    statement: Statement<'c>,
    raw: Raw,
}

impl<'c> Prepared<'c> {
    pub(crate) fn new(db: &'c Sqlite) -> Self {
        Self { db, places: HashMap::default(), statements: Vec::new() }
    }

    fn statement(&mut self, sql: &str) -> rusqlite::Result<Result<&mut Kept<'c>, StoreError>> {
        let place = match self.places.get(sql) {
            Some(place) => *place,
            None => {
                if self.statements.len() >= STATEMENTS_MAX {
                    self.places.clear();
                    self.statements.clear();
                }
                let (connection, flags) =
                    (&self.db.connection, PrepFlags::SQLITE_PREPARE_PERSISTENT);
                if let Some(table) = plan::looked_through(connection, sql)? {
                    let detail = format!("`{sql}` looks through all of `{table}`");
                    return Ok(Err(StoreError::bug(detail)));
                }
                let statement = connection.prepare_with_flags(sql, flags)?;
                let Some(raw) = Raw::newest(connection, sql) else {
                    let detail = format!("`{sql}` is not what was prepared last");
                    return Ok(Err(StoreError::bug(detail)));
                };
                self.statements.push(Kept { statement, raw });
                self.places.insert(sql.into(), self.statements.len() - 1);
                self.statements.len() - 1
            }
        };
        Ok(Ok(&mut self.statements[place]))
    }

    fn used<T>(
        &mut self,
        sql: &str,
        params: &[Value<'_>],
        make: impl FnOnce(&mut Statement<'_>) -> rusqlite::Result<Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let db = self.db;
        let used = self.statement(sql).and_then(|kept| {
            let kept = match kept {
                Ok(kept) => kept,
                Err(error) => return Ok(Err(error)),
            };
            if let Err(error) = check_count(&kept.statement, sql, params) {
                return Ok(Err(error));
            }
            // Until the statement has run; what the next one does not bind must be nothing.
            let _bound = kept.raw.bind(params)?;
            make(&mut kept.statement)
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

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::path::PathBuf;

    use rusqlite::Connection;

    use super::*;
    use crate::params;

    const ADD: &str = "INSERT INTO t (n, x) VALUES (?1, ?2)";

    fn open() -> Sqlite {
        let db = Sqlite::new(Connection::open_in_memory().unwrap(), PathBuf::new());
        db.batch("CREATE TABLE t (n INTEGER PRIMARY KEY, x TEXT)").unwrap();
        db
    }

    fn stored(sql: &mut Prepared<'_>) -> Vec<Option<String>> {
        let mut found = Vec::new();
        let mut each = |row: &mut Row<'_>| {
            found.push(row.take()?);
            Ok(ControlFlow::Continue(()))
        };
        sql.query("SELECT x FROM t ORDER BY n", &[], &mut each).unwrap();
        found
    }

    #[test]
    fn what_was_bound_is_stored_and_then_forgotten() {
        let db = open();
        let mut sql = Prepared::new(&db);
        for text in [Some(String::from("a")), None, Some(String::new()), Some("x".repeat(5000))] {
            let next = stored(&mut sql).len() as i64;
            sql.execute(ADD, params![next, text]).unwrap();
            drop(text);
        }
        let expected = [Some("a".into()), None, Some(String::new()), Some("x".repeat(5000))];
        assert_eq!(stored(&mut sql), expected);
    }

    #[test]
    fn a_statement_that_fails_leaves_nothing_bound() {
        let db = open();
        let mut sql = Prepared::new(&db);
        sql.execute(ADD, params![1_i64, "first"]).unwrap();
        let again = String::from("again");
        sql.execute(ADD, params![1_i64, again]).unwrap_err();
        drop(again);
        sql.execute(ADD, params![2_i64, None::<String>]).unwrap();
        assert_eq!(stored(&mut sql), [Some("first".to_owned()), None]);
        let error = sql.execute(ADD, params![3_i64]).unwrap_err();
        assert!(error.to_string().contains("takes 2 parameters, 1 were given"), "{error}");
    }

    #[test]
    fn a_panic_in_the_middle_of_an_answer_leaves_nothing_bound() {
        const LIKE: &str = "SELECT n FROM t WHERE x IS ?1";
        let db = open();
        let mut sql = Prepared::new(&db);
        sql.execute(ADD, params![1_i64, "first"]).unwrap();
        let wanted = String::from("first");
        let looked = catch_unwind(AssertUnwindSafe(|| {
            sql.query(LIKE, params![wanted], &mut |_| panic!("in the middle"))
        }));
        drop((looked.unwrap_err(), wanted));
        let mut found = 0;
        let mut each = |_: &mut Row<'_>| {
            found += 1;
            Ok(ControlFlow::Continue(()))
        };
        sql.query(LIKE, params![None::<String>], &mut each).unwrap();
        assert_eq!(found, 0);
        assert_eq!(stored(&mut sql), [Some("first".to_owned())]);
    }
}
