//! The schema's history. A migration that was released never changes; the next one is a new file.

use super::{APPLICATION_ID, Sqlite};
use crate::StoreError;

/// The migrations in order; the version of each is its place, counted from one.
const MIGRATIONS: &[&str] = &[
    include_str!("../../migrations/sqlite/0001_engine.sql"),
    include_str!("../../migrations/sqlite/0002_maintenance.sql"),
    include_str!("../../migrations/sqlite/0003_api.sql"),
    include_str!("../../migrations/sqlite/0004_worker.sql"),
    include_str!("../../migrations/sqlite/0005_children.sql"),
    include_str!("../../migrations/sqlite/0006_secrets.sql"),
    include_str!("../../migrations/sqlite/0007_ballots.sql"),
    include_str!("../../migrations/sqlite/0008_records.sql"),
    include_str!("../../migrations/sqlite/0009_saved.sql"),
    include_str!("../../migrations/sqlite/0010_shared_state.sql"),
    include_str!("../../migrations/sqlite/0011_input_keys.sql"),
    include_str!("../../migrations/sqlite/0012_run_number.sql"),
    include_str!("../../migrations/sqlite/0013_fewer_keys.sql"),
    include_str!("../../migrations/sqlite/0014_deadlines.sql"),
    include_str!("../../migrations/sqlite/0015_steps_in_order.sql"),
    include_str!("../../migrations/sqlite/0016_below.sql"),
    include_str!("../../migrations/sqlite/0017_in_order.sql"),
    include_str!("../../migrations/sqlite/0018_kin.sql"),
];

/// The newest schema version this program knows.
pub const SCHEMA_VERSION: u32 = MIGRATIONS.len() as u32;

/// Brings the database to [`SCHEMA_VERSION`], each migration in a transaction of its own.
///
/// Two processes may do this at once: the version is read again under the write lock.
pub(super) fn migrate(db: &mut Sqlite) -> Result<(), StoreError> {
    for (version, sql) in (1i64..).zip(MIGRATIONS) {
        if db.number("PRAGMA user_version")? >= version {
            continue;
        }
        db.begin_write()?;
        let applied = apply(db, version, sql).and_then(|()| db.commit());
        if let Err(error) = applied {
            db.rollback()?;
            return Err(error);
        }
    }
    Ok(())
}

fn apply(db: &mut Sqlite, version: i64, sql: &str) -> Result<(), StoreError> {
    if db.number("PRAGMA user_version")? >= version {
        return Ok(());
    }
    db.batch(sql)?;
    db.batch(&format!("PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version}"))
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use super::{MIGRATIONS, SCHEMA_VERSION, migrate};
    use crate::sqlite::Sqlite;

    /// The version before tasks, runs and inputs were laid in the order in which they come.
    const BY_ID: usize = 16;

    fn lines(db: &Connection, sql: &str) -> Vec<String> {
        let mut statement = db.prepare(sql).unwrap();
        let columns = statement.column_count();
        let line = |row: &rusqlite::Row<'_>| {
            let cells: Vec<_> = (0..columns).map(|place| row.get_ref(place).unwrap()).collect();
            Ok(format!("{cells:?}"))
        };
        statement.query_map([], line).unwrap().map(Result::unwrap).collect()
    }

    #[test]
    fn a_database_of_before_keeps_every_value_of_its_rows() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("old.db");
        let old = Connection::open(&path).unwrap();
        for sql in &MIGRATIONS[..BY_ID] {
            old.execute_batch(sql).unwrap();
        }
        old.execute_batch(&format!("PRAGMA user_version = {BY_ID}")).unwrap();
        let class =
            "INSERT INTO exec_class (key, namespace, desired, updated) VALUES ('c', 'n', 8, 1)";
        old.execute(class, []).unwrap();
        let tables = ["task", "run", "input"];
        let mut queries = Vec::new();
        for table in tables {
            let about = format!("SELECT name FROM pragma_table_info('{table}')");
            let mut statement = old.prepare(&about).unwrap();
            let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
            let names: Vec<String> = names.map(Result::unwrap).collect();
            // Each column has a value of its own, but for those that name another row or must be told apart.
            for id in ["b", "a"] {
                let value = |(place, name): (usize, &String)| match name.as_str() {
                    "id" | "task_id" | "session_id" => format!("'{id}'"),
                    "class_key" => "'c'".to_owned(),
                    _ => format!("{}", place + 100),
                };
                let values: Vec<String> = names.iter().enumerate().map(value).collect();
                let (names, values) = (names.join(", "), values.join(", "));
                old.execute(&format!("INSERT INTO {table} ({names}) VALUES ({values})"), [])
                    .unwrap();
            }
            queries.push(format!("SELECT {} FROM {table} ORDER BY id", names.join(", ")));
        }
        let rows = |db: &Connection| queries.iter().map(|sql| lines(db, sql)).collect::<Vec<_>>();
        let before = rows(&old);
        drop(old);

        let mut db = Sqlite::new(Connection::open(&path).unwrap(), path);
        db.batch("PRAGMA foreign_keys = ON").unwrap();
        migrate(&mut db).unwrap();
        let db = db.connection();
        assert_eq!(rows(db), before);
        assert_eq!(lines(db, "PRAGMA user_version"), [format!("[Integer({SCHEMA_VERSION})]")]);
        assert_eq!(lines(db, "PRAGMA foreign_key_check"), [""; 0]);
        let sound: String = db.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
    }
}
