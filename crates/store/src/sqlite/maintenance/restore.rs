//! Restores a database from a backup.
//!
//! The restored copy starts a new generation: all leases in the backup count as lost, and epochs start above every
//! epoch that was used before, in the backup or in the replaced database.

use std::fs;
use std::path::{Path, PathBuf};

use provost_core::Env;

use super::copy;
use crate::sqlite::lock::DatabaseLock;
use crate::sqlite::{self, DatabaseIdentity, SCHEMA_VERSION, Sqlite};
use crate::table::state::meta;
use crate::transaction::tx::TxAttempt;
use crate::{StoreError, StoreOptions, Tx};

/// Options of a restore.
#[derive(Debug, Clone)]
pub struct RestoreOptions {
    /// The backup file.
    pub from: PathBuf,
    /// The database file to create.
    pub to: PathBuf,
    /// Replaces an existing database. If false, an existing file is an error.
    pub replace: bool,
    /// Source of time for the restored database.
    pub env: Env,
}

/// Description of a finished restore.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoreReport {
    /// The generation of the restored database.
    pub generation: u64,
    /// Schema version of the backup. The restored database has the newest version.
    pub schema_version: u32,
}

/// Creates a database from a backup. No process may have the target open.
///
/// The backup is checked first and stays unchanged. A replaced database stays in place until the new one is complete.
/// If the machine stops in between, the old database remains next to it under a name that ends in `.replaced`.
pub fn restore(options: &RestoreOptions) -> Result<RestoreReport, StoreError> {
    let RestoreOptions { from, to, replace, env } = options;
    if !from.is_file() {
        let detail = "there is no such file".into();
        return Err(StoreError::NotADatabase { path: from.clone(), detail });
    }
    if to.exists() && !replace {
        return Err(StoreError::Exists { path: to.clone() });
    }
    let _lock = DatabaseLock::exclusive(to)?;
    let mut source = sqlite::open_read_only(from)?;
    let schema_version = check_source(&mut source, from)?;
    let draft = copy::with_suffix(to, ".restoring");
    let prepared =
        copy::copy(&mut source, &draft, &mut |_| {}).and_then(|()| start_generation(&draft, env));
    let generation = match prepared {
        Ok(generation) => generation,
        Err(error) => {
            copy::remove(&draft)?;
            return Err(error);
        }
    };
    swap_files(&draft, to)?;
    Ok(RestoreReport { generation, schema_version })
}

/// Checks the integrity of the backup and returns its schema version.
fn check_source(source: &mut Sqlite, from: &Path) -> Result<u32, StoreError> {
    let version = match sqlite::identify(source, sqlite::ENGINE.application_id)? {
        DatabaseIdentity::Empty => {
            let detail = "it is empty".into();
            return Err(StoreError::NotADatabase { path: from.to_owned(), detail });
        }
        DatabaseIdentity::Provost(found) if found > SCHEMA_VERSION => {
            return Err(StoreError::SchemaTooNew { found, known: SCHEMA_VERSION });
        }
        DatabaseIdentity::Provost(version) => version,
    };
    match source.text("PRAGMA integrity_check(1)")?.as_str() {
        "ok" => Ok(version),
        finding => Err(StoreError::Corrupt { detail: format!("the backup: {finding}") }),
    }
}

/// Migrates the copy to the newest schema and starts its generation. Closing it leaves a single file.
fn start_generation(draft: &Path, env: &Env) -> Result<u64, StoreError> {
    let mut db = sqlite::prepare(&StoreOptions { env: env.clone(), ..StoreOptions::new(draft) })?;
    db.begin_write()?;
    let started = meta::next_generation(&mut Tx::new(&mut db, &mut TxAttempt::new(env)))
        .and_then(|generation| db.commit().map(|()| generation));
    if started.is_err() {
        db.rollback()?;
    }
    let generation = started?;
    db.text("PRAGMA journal_mode = DELETE")?;
    drop(db);
    copy::sync(draft)?;
    Ok(generation)
}

/// Swaps the files in an order in which the write-ahead log of the old database never lies next to the new file.
fn swap_files(draft: &Path, to: &Path) -> Result<(), StoreError> {
    let replaced = copy::with_suffix(to, ".replaced");
    copy::remove(&replaced)?;
    for (old, target) in copy::database_files(to).iter().zip(copy::database_files(&replaced)) {
        match fs::rename(old, &target) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::file(old, &error));
            }
            _ => {}
        }
    }
    copy::rename(draft, to)?;
    copy::remove(&replaced)
}
