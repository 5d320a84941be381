//! Checks and creates the tables of each [`Schema`].

use super::migrate::{ENGINE, History, MEMORY};
use super::open::{DatabaseIdentity, identify};
use super::{Sqlite, session_schema};
use crate::{Schema, StoreError};

/// Fails for a file of another program or of a newer version.
pub(super) fn check(db: &mut Sqlite, schema: &Schema) -> Result<(), StoreError> {
    match schema {
        Schema::Engine => check_version(db, &ENGINE),
        Schema::Memory => check_version(db, &MEMORY),
        Schema::Sessions(prefix) => session_schema::version(db, prefix).map(drop),
    }
}

/// Creates the tables or migrates them to the newest version.
pub(super) fn migrate(db: &mut Sqlite, schema: &Schema) -> Result<(), StoreError> {
    match schema {
        Schema::Engine => ENGINE.migrate(db),
        Schema::Memory => MEMORY.migrate(db),
        Schema::Sessions(prefix) => session_schema::migrate(db, prefix),
    }
}

/// Fails if the database has a newer version than this program.
fn check_version(db: &mut Sqlite, history: &History) -> Result<(), StoreError> {
    let known = history.version();
    match identify(db, history.application_id)? {
        DatabaseIdentity::Provost(found) if found > known => {
            Err(StoreError::SchemaTooNew { found, known })
        }
        DatabaseIdentity::Provost(_) | DatabaseIdentity::Empty => Ok(()),
    }
}
