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
