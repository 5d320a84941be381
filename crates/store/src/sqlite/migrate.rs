//! Schema migrations. A released migration never changes; every change is a new file.

use super::Sqlite;
use crate::StoreError;

/// The migrations of a database that has its own file.
pub(crate) struct History {
    /// Identifies the file as a Provost database.
    pub(crate) application_id: i64,
    migrations: &'static [&'static str],
}

/// The engine's database. The application id spells `PRVS`.
pub(crate) const ENGINE: History = History { application_id: 0x5052_5653, migrations: MIGRATIONS };

/// The memory database. The application id spells `PRVM`.
pub(crate) const MEMORY: History = History {
    application_id: 0x5052_564d,
    migrations: &[include_str!("../../migrations/memory/0001_memory.sql")],
};

/// The migrations in order. The version of a migration is its position, starting at 1.
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
    include_str!("../../migrations/sqlite/0019_full_indexes.sql"),
    include_str!("../../migrations/sqlite/0020_plain_run.sql"),
    include_str!("../../migrations/sqlite/0021_joins.sql"),
    include_str!("../../migrations/sqlite/0022_run_kind.sql"),
    include_str!("../../migrations/sqlite/0023_typed_columns.sql"),
    include_str!("../../migrations/sqlite/0024_resource_sets.sql"),
];

/// Newest schema version of the engine's database that this program supports.
pub const SCHEMA_VERSION: u32 = MIGRATIONS.len() as u32;

impl History {
    /// Returns the newest schema version that this program supports.
    pub(crate) const fn version(&self) -> u32 {
        self.migrations.len() as u32
    }

    /// Migrates the database to the newest version, with one transaction per migration.
    ///
    /// Foreign keys are off during the migration, because SQLite requires it for rebuilding a table. Two processes
    /// may migrate at the same time, so each migration reads the version again under the write lock.
    pub(super) fn migrate(&self, db: &mut Sqlite) -> Result<(), StoreError> {
        db.batch("PRAGMA foreign_keys = OFF")?;
        let migrated = self.migrate_each(db);
        db.batch("PRAGMA foreign_keys = ON")?;
        migrated
    }

    /// Applies each migration that the database lacks in a transaction of its own.
    fn migrate_each(&self, db: &Sqlite) -> Result<(), StoreError> {
        for (version, sql) in (1i64..).zip(self.migrations) {
            if db.number("PRAGMA user_version")? >= version {
                continue;
            }
            db.begin_write()?;
            let applied = self.apply(db, version, sql).and_then(|()| db.commit());
            if let Err(error) = applied {
                db.rollback()?;
                return Err(error);
            }
        }
        Ok(())
    }

    /// Applies one migration, unless another process has done so.
    fn apply(&self, db: &Sqlite, version: i64, sql: &str) -> Result<(), StoreError> {
        if db.number("PRAGMA user_version")? >= version {
            return Ok(());
        }
        db.batch(sql)?;
        let application_id = self.application_id;
        db.batch(&format!(
            "PRAGMA application_id = {application_id}; PRAGMA user_version = {version}"
        ))
    }
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};

    use rusqlite::Connection;

    use super::{ENGINE, MIGRATIONS, SCHEMA_VERSION};
    use crate::sqlite::Sqlite;

    /// The newest version before the indexes covered every row.
    const WITH_KIN: usize = 18;

    /// The newest version whose runs stored their waits as JSON.
    const WITH_WAITS: usize = 20;
    /// The last version that read facts from the start of a text.
    const WITH_PREFIXES: usize = 22;
    /// The last version whose runs have no resource set.
    const WITHOUT_RESOURCE_SETS: usize = 23;

    fn lines(db: &Connection, sql: &str) -> Vec<String> {
        let mut statement = db.prepare(sql).unwrap();
        let columns = statement.column_count();
        let line = |row: &rusqlite::Row<'_>| {
            let cells: Vec<_> = (0..columns).map(|place| row.get_ref(place).unwrap()).collect();
            Ok(format!("{cells:?}"))
        };
        statement.query_map([], line).unwrap().map(Result::unwrap).collect()
    }

    /// A database of an earlier version.
    fn old_database(path: &Path, version: usize) -> Connection {
        let old = Connection::open(path).unwrap();
        for sql in &MIGRATIONS[..version] {
            old.execute_batch(sql).unwrap();
        }
        old.execute_batch(&format!("PRAGMA user_version = {version}")).unwrap();
        old
    }

    /// Two rows in each table, one of them with `kin`, each column with a value of its own, but for those that refer
    /// to a row or must be told apart.
    fn fill(old: &Connection, table: &str) {
        let columns = columns(old, table);
        for id in ["b", "a"] {
            let value = |(place, name): (usize, &String)| match name.as_str() {
                "id" | "task_id" | "session_id" => format!("'{id}'"),
                "class_key" => "'c'".to_owned(),
                "kin" => i64::from(id == "a").to_string(),
                _ => format!("{}", place + 100),
            };
            let values: Vec<String> = columns.iter().enumerate().map(value).collect();
            let (names, values) = (columns.join(", "), values.join(", "));
            old.execute(&format!("INSERT INTO {table} ({names}) VALUES ({values})"), []).unwrap();
        }
    }

    fn columns(db: &Connection, table: &str) -> Vec<String> {
        let about = format!("SELECT name FROM pragma_table_info('{table}')");
        let mut statement = db.prepare(&about).unwrap();
        let names = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        names.map(Result::unwrap).collect()
    }

    fn migrated(old: Connection, path: PathBuf) -> Sqlite {
        drop(old);
        let mut db = Sqlite::new(Connection::open(&path).unwrap(), path);
        ENGINE.migrate(&mut db).unwrap();
        assert_eq!(db.number("PRAGMA foreign_keys").unwrap(), 1);
        assert_eq!(db.number("PRAGMA user_version").unwrap(), i64::from(SCHEMA_VERSION));
        assert_eq!(db.text("PRAGMA integrity_check").unwrap(), "ok");
        db
    }

    #[test]
    fn a_database_of_version_18_keeps_every_row() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("old.db");
        let old = old_database(&path, WITH_KIN);
        let class =
            "INSERT INTO exec_class (key, namespace, desired, updated) VALUES ('c', 'n', 8, 1)";
        old.execute(class, []).unwrap();
        let tables = ["task", "run", "input"];
        tables.iter().for_each(|table| fill(&old, table));
        let query = |table: &&str| {
            let mut names = columns(&old, table);
            names.retain(|name| !["kin", "no", "waits"].contains(&name.as_str()));
            format!("SELECT {} FROM {table} ORDER BY id", names.join(", "))
        };
        let queries = tables.iter().map(query).collect::<Vec<_>>();
        let rows = |db: &Connection| queries.iter().map(|sql| lines(db, sql)).collect::<Vec<_>>();
        let before = rows(&old);
        let db = migrated(old, path);
        assert_eq!(rows(db.connection()), before);
        assert_eq!(lines(db.connection(), "PRAGMA foreign_key_check"), [""; 0]);
    }

    #[test]
    fn a_run_of_version_18_that_refers_to_nothing_is_kept_and_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("old.db");
        let old = old_database(&path, WITH_KIN);
        fill(&old, "run");
        let db = migrated(old, path);
        assert_eq!(db.number("SELECT count(*) FROM run").unwrap(), 2);
        // Each of them names a task and a class.
        assert_eq!(lines(db.connection(), "PRAGMA foreign_key_check").len(), 4);
    }

    #[test]
    fn a_leased_run_of_version_18_gets_its_policy_and_its_numbers() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("old.db");
        let old = old_database(&path, WITH_KIN);
        old.execute_batch(
            "INSERT INTO exec_class (key, namespace, desired, updated, policy) VALUES ('c', 'n', 8, 1, 'of the class');
             INSERT INTO task (id, namespace, agent, agent_revision, session_id, state, queue_mode, command, created, updated)
               VALUES ('t', 'n', 'a', 1, 's', 'running', 'followup', '{}', 1, 1);
             INSERT INTO run (id, namespace, task_id, ordinal, session_id, class_key, agent, agent_revision, policy, status,
                 phase, rank, not_before, next_seq, next_step, created, no)
               VALUES ('x', 'n', 't', 1, 's', 'c', 'a', 1, '', 'running', 'leased', 1, 1, 2, 1, 1, 7),
                      ('y', 'n', 't', 2, 's', 'c', 'a', 1, 'own', 'accepted', 'queued', 1, 1, 2, 1, 1, 9);
             INSERT INTO run_event (pos, run_id, run_no, seq, epoch, attempt_no, kind, at)
               VALUES (7, 'x', 7, 1, 0, 0, 'e', 1), (8, 'x', 7, 2, 0, 0, 'e', 1), (9, 'y', 9, 1, 0, 0, 'e', 1);
             INSERT INTO run_step (run_no, step, kind, state, epoch, started, fed)
               VALUES (7, 1, 'k', 'committed', 0, 1, 1), (7, 2, 'k', 'started', 0, 1, NULL);",
        )
        .unwrap();
        let db = migrated(old, path);
        let runs = "SELECT group_concat(id || ' ' || policy || ' ' || next_seq || ' ' || next_step, ', ') FROM run";
        assert_eq!(db.text(runs).unwrap(), "x of the class 3 3, y own 2 1");
        let events = "SELECT group_concat(pos || run_id || seq, ' ') FROM run_event";
        assert_eq!(db.text(events).unwrap(), "7x1 8x2 9y1");
        let steps =
            "SELECT group_concat(run_id || step || state || ifnull(fed, '-'), ' ') FROM run_step";
        assert_eq!(db.text(steps).unwrap(), "x1committed1 x2started-");
    }

    #[test]
    fn an_open_wait_of_version_20_becomes_a_join() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("old.db");
        let old = old_database(&path, WITH_WAITS);
        let run = |id: &str, phase: &str, waits: &str| {
            format!(
                "INSERT INTO run (id, namespace, task_id, ordinal, session_id, class_key, agent, agent_revision, policy, status,
                     phase, parked_for, waits, rank, not_before, created)
                   VALUES ('{id}', 'n', 't', 1, 's', 'c', 'a', 1, '', 'running', '{phase}', 'child', '{waits}', 1, 1, 1);"
            )
        };
        let waits = r#"[{"call":{"id":"1"},"question":"q1","kind":"await_child","runs":["live","over"],"any":true,
                         "timeout_ms":5,"until":9},
                        {"call":{"id":"2"},"question":"q2","kind":"await_child","runs":[],"any":false,"timeout_ms":null,
                         "team":{"lead":"lead","mail_of":"ann"},"again":true}]"#;
        old.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
        for row in
            [run("parent", "parked", waits), run("live", "queued", "[]"), run("over", "done", "[]")]
        {
            old.execute_batch(&row).unwrap();
        }
        let db = migrated(old, path);
        let joins =
            "SELECT group_concat(concat_ws(' ', id, run_id, mode, ifnull(until, '-'), call, again,
                       ifnull(team_lead, '-'), ifnull(mail_of, '-')), ', ') FROM run_join";
        assert_eq!(
            db.text(joins).unwrap(),
            r#"q1 parent any 9 {"id":"1"} 0 - -, q2 parent all - {"id":"2"} 1 lead ann"#
        );
        let dependencies =
            "SELECT group_concat(join_id || place || depends_on || done, ' ') FROM run_dependency";
        assert_eq!(db.text(dependencies).unwrap(), "q10live0 q11over1");
    }

    #[test]
    fn texts_of_version_22_become_columns() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("old.db");
        let old = old_database(&path, WITH_PREFIXES);
        old.execute_batch(
            r#"INSERT INTO session (namespace, id, created, updated) VALUES ('n', 'talk_1', 1, 1), ('n', 'talkative', 1, 1);
               INSERT INTO idem (namespace, scope, idem_key, request_hash, result, created)
                 VALUES ('n', 'accept:a', 'k', '', '{"accepted":{"task":"task_1"}}', 1),
                        ('n', 'run', 'r', '', '{"accepted":{"task":"task_2"}}', 1),
                        ('n', 'accept', 'x', '', '{"refused":{}}', 1), ('n', 'input:task_3', 'i', '', '{}', 1);"#,
        )
        .unwrap();
        let db = migrated(old, path);
        let sessions = "SELECT group_concat(id || ' ' || continuable, ', ') FROM session";
        assert_eq!(db.text(sessions).unwrap(), "talk_1 1, talkative 0");
        let tasks = "SELECT group_concat(idem_key || ' ' || ifnull(task_id, '-'), ', ') FROM
                       (SELECT idem_key, task_id FROM idem ORDER BY idem_key)";
        assert_eq!(db.text(tasks).unwrap(), "i task_3, k task_1, r task_2, x -");
    }

    #[test]
    fn a_run_of_version_23_has_no_resource_set() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("old.db");
        let old = old_database(&path, WITHOUT_RESOURCE_SETS);
        old.execute_batch(
            "PRAGMA foreign_keys = OFF;
             INSERT INTO run (id, namespace, task_id, ordinal, session_id, class_key, agent, agent_revision, policy, status,
                 phase, rank, not_before, created)
               VALUES ('r', 'n', 't', 1, 's', 'c', 'a', 1, '', 'queued', 'queued', 1, 1, 1);",
        )
        .unwrap();
        let db = migrated(old, path);
        let runs = "SELECT group_concat(id || ' ' || ifnull(resource_set, '-')) FROM run";
        assert_eq!(db.text(runs).unwrap(), "r -");
        let sets = "SELECT (SELECT count(*) FROM resource_set) || (SELECT count(*) FROM resource_set_version)";
        assert_eq!(db.text(sets).unwrap(), "00");
    }
}
