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

fn stored(db: &mut Sqlite) -> Vec<Option<String>> {
    let mut found = Vec::new();
    let mut each = |row: &mut Row<'_>| {
        found.push(row.take()?);
        Ok(ControlFlow::Continue(()))
    };
    db.query("SELECT x FROM t ORDER BY n", &[], &mut each).unwrap();
    found
}

#[test]
fn what_was_bound_is_stored_and_then_forgotten() {
    let mut db = open();
    for text in [Some(String::from("a")), None, Some(String::new()), Some("x".repeat(5000))] {
        let next = stored(&mut db).len() as i64;
        db.execute(ADD, params![next, text]).unwrap();
    }
    let expected = [Some("a".into()), None, Some(String::new()), Some("x".repeat(5000))];
    assert_eq!(stored(&mut db), expected);
}

#[test]
fn a_statement_that_fails_leaves_nothing_bound() {
    let mut db = open();
    db.execute(ADD, params![1_i64, "first"]).unwrap();
    db.execute(ADD, params![1_i64, "again"]).unwrap_err();
    db.execute(ADD, params![2_i64, None::<String>]).unwrap();
    assert_eq!(stored(&mut db), [Some("first".to_owned()), None]);
    let error = db.execute(ADD, params![3_i64]).unwrap_err();
    assert!(error.to_string().contains("takes 2 parameters, 1 were given"), "{error}");
}

#[test]
fn a_panic_in_the_middle_of_an_answer_leaves_nothing_bound() {
    const LIKE: &str = "SELECT n FROM t WHERE x IS ?1";
    let mut db = open();
    db.execute(ADD, params![1_i64, "first"]).unwrap();
    let looked = catch_unwind(AssertUnwindSafe(|| {
        db.query(LIKE, params!["first"], &mut |_| panic!("in the middle"))
    }));
    looked.unwrap_err();
    let mut found = 0;
    let mut each = |_: &mut Row<'_>| {
        found += 1;
        Ok(ControlFlow::Continue(()))
    };
    db.query(LIKE, params![None::<String>], &mut each).unwrap();
    assert_eq!(found, 0);
    assert_eq!(stored(&mut db), [Some("first".to_owned())]);
}
