//! Bringing a backup back.
//!
//! The copy becomes a new generation: whatever was leased when it was taken counts as lost, and no epoch that was ever
//! given out before, in either history, is given out again.

use std::fs;
use std::path::{Path, PathBuf};

use provost_core::Env;

use super::copy;
use crate::sqlite::lock::DatabaseLock;
use crate::sqlite::{self, Identity, SCHEMA_VERSION, Sqlite};
use crate::table::state::meta;
use crate::transaction::tx::Attempt;
use crate::{StoreError, StoreOptions, Tx};

/// What to restore and where to.
#[derive(Debug, Clone)]
pub struct RestoreOptions {
    /// The backup.
    pub from: PathBuf,
    /// The database file to make.
    pub to: PathBuf,
    /// Replaces a database that is there. Without it that is an error.
    pub replace: bool,
    /// The database's clock.
    pub env: Env,
}

/// What was restored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestoreReport {
    /// The new generation of the database.
    pub generation: u64,
    /// The schema version of the backup; the restored database has the newest.
    pub schema_version: u32,
}

/// Makes a database of a backup. Nobody may have the target open.
///
/// The backup is checked first and only read. A database that is replaced stays until the new one is complete; if the
/// machine stops in between, it is found beside it with `.replaced` at the end of its name.
pub fn restore(options: &RestoreOptions) -> Result<RestoreReport, StoreError> {
    let RestoreOptions { from, to, replace, env } = options;
    if !from.is_file() {
        let detail = "there is no such file".into();
        return Err(StoreError::NotADatabase { path: from.clone(), detail });
    }
    if to.exists() && !replace {
        return Err(StoreError::Exists { path: to.clone() });
    }
    let _alone = DatabaseLock::exclusive(to)?;
    let mut source = sqlite::open_read_only(from)?;
    let schema_version = check_source(&mut source, from)?;
    let draft = copy::beside(to, ".restoring");
    let made = copy::copy(&mut source, &draft, &mut |_| {}).and_then(|()| renew(&draft, env));
    let generation = match made {
        Ok(generation) => generation,
        Err(error) => {
            copy::remove(&draft)?;
            return Err(error);
        }
    };
    put_in_place(&draft, to)?;
    Ok(RestoreReport { generation, schema_version })
}

/// The schema version of a backup that is whole.
fn check_source(source: &mut Sqlite, from: &Path) -> Result<u32, StoreError> {
    let version = match sqlite::identify(source, sqlite::ENGINE.application_id)? {
        Identity::Empty => {
            let detail = "it is empty".into();
            return Err(StoreError::NotADatabase { path: from.to_owned(), detail });
        }
        Identity::Ours(found) if found > SCHEMA_VERSION => {
            return Err(StoreError::NewerSchema { found, known: SCHEMA_VERSION });
        }
        Identity::Ours(version) => version,
    };
    match source.text("PRAGMA integrity_check(1)")?.as_str() {
        "ok" => Ok(version),
        finding => Err(StoreError::Damaged { detail: format!("the backup: {finding}") }),
    }
}

/// Brings the copy to the newest schema and into a generation of its own. Closing it leaves a single file.
fn renew(draft: &Path, env: &Env) -> Result<u64, StoreError> {
    let mut db = sqlite::prepare(&StoreOptions { env: env.clone(), ..StoreOptions::new(draft) })?;
    db.begin_write()?;
    let renewed = meta::next_generation(&mut Tx::new(&mut db, &mut Attempt::new(env)))
        .and_then(|generation| db.commit().map(|()| generation));
    if renewed.is_err() {
        db.rollback()?;
    }
    let generation = renewed?;
    db.text("PRAGMA journal_mode = DELETE")?;
    drop(db);
    copy::sync(draft)?;
    Ok(generation)
}

/// Exchanges the files so that no log of the old database is ever beside the new one.
fn put_in_place(draft: &Path, to: &Path) -> Result<(), StoreError> {
    let replaced = copy::beside(to, ".replaced");
    copy::remove(&replaced)?;
    for (old, aside) in copy::family(to).iter().zip(copy::family(&replaced)) {
        match fs::rename(old, &aside) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                return Err(StoreError::file(old, &error));
            }
            _ => {}
        }
    }
    copy::rename(draft, to)?;
    copy::remove(&replaced)
}
