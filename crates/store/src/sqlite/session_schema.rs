//! The tables of sessions and shared state in a file that other programs may also use.
//!
//! A table holds their schema version, because the version number of the file belongs to the other programs.

use super::Sqlite;
use crate::{StoreError, TablePrefix};

/// Schema version that this program writes.
const VERSION: u32 = 2;

/// Returns the schema version of the tables with this prefix; `None` if they do not exist.
pub(super) fn version(db: &Sqlite, prefix: &TablePrefix) -> Result<Option<u32>, StoreError> {
    let prefix = prefix.as_str();
    let version_table = format!("{prefix}session_schema");
    let is_there = |table: &str| {
        let sql = format!(
            "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = '{table}' COLLATE NOCASE)"
        );
        db.number(&sql).map(|found| found == 1)
    };
    if !is_there(&version_table)? {
        for table in [format!("{prefix}sessions"), format!("{prefix}messages")] {
            if is_there(&table)? {
                return Err(StoreError::TableTaken { table });
            }
        }
        return Ok(None);
    }
    match db.number(&format!("SELECT version FROM {version_table}")) {
        Ok(found) => match u32::try_from(found) {
            Ok(found) if found <= VERSION => Ok(Some(found)),
            found => {
                Err(StoreError::SchemaTooNew { found: found.unwrap_or(u32::MAX), known: VERSION })
            }
        },
        // A table of another program has different columns or no row.
        Err(StoreError::Bug { .. }) => Err(StoreError::TableTaken { table: version_table }),
        Err(error) => Err(error),
    }
}

/// Creates or upgrades the tables. Two processes may migrate at the same time, so the version is read again under the
/// write lock.
pub(super) fn migrate(db: &Sqlite, prefix: &TablePrefix) -> Result<(), StoreError> {
    db.begin_write()?;
    let applied = apply(db, prefix).and_then(|()| db.commit());
    if applied.is_err() {
        db.rollback()?;
    }
    applied
}

/// Creates or upgrades the tables inside a transaction.
fn apply(db: &Sqlite, prefix: &TablePrefix) -> Result<(), StoreError> {
    let found = version(db, prefix)?;
    let prefix = prefix.as_str();
    if found.is_none() {
        db.batch(&create_sessions(prefix))?;
        db.batch(&format!("INSERT INTO {prefix}session_schema (version) VALUES ({VERSION})"))?;
    }
    if found.is_none_or(|found| found < VERSION) {
        db.batch(&create_values(prefix))?;
        db.batch(&format!("UPDATE {prefix}session_schema SET version = {VERSION}"))?;
    }
    Ok(())
}

/// Returns the statements that create the tables of version 1.
fn create_sessions(prefix: &str) -> String {
    format!(
        "CREATE TABLE {prefix}session_schema (version INTEGER NOT NULL) STRICT;
         CREATE TABLE {prefix}sessions (
             key INTEGER PRIMARY KEY AUTOINCREMENT,
             id TEXT NOT NULL UNIQUE,
             revision INTEGER NOT NULL,
             messages INTEGER NOT NULL,
             metadata TEXT NOT NULL,
             created_at INTEGER NOT NULL,
             updated_at INTEGER NOT NULL
         ) STRICT;
         CREATE INDEX {prefix}sessions_by_change ON {prefix}sessions (updated_at DESC, id);
         CREATE TABLE {prefix}messages (
             session INTEGER NOT NULL REFERENCES {prefix}sessions (key) ON DELETE CASCADE,
             seq INTEGER NOT NULL,
             body TEXT NOT NULL,
             UNIQUE (session, seq)
         ) STRICT;"
    )
}

/// Returns the statement that creates the table of version 2. Deleting a session deletes its values.
fn create_values(prefix: &str) -> String {
    format!(
        "CREATE TABLE IF NOT EXISTS {prefix}shared_state (
             scope TEXT NOT NULL,
             owner TEXT NOT NULL,
             name TEXT NOT NULL,
             value TEXT NOT NULL,
             updated_at INTEGER NOT NULL,
             PRIMARY KEY (scope, owner, name)
         ) STRICT, WITHOUT ROWID;
         CREATE TRIGGER IF NOT EXISTS {prefix}session_values_go AFTER DELETE ON {prefix}sessions BEGIN
             DELETE FROM {prefix}shared_state WHERE scope = 'session' AND owner = OLD.id;
         END;"
    )
}
