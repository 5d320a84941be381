//! Opening the file: whose it is, what is set, which schema it has.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, TransactionBehavior};

use super::SqliteOptions;
use crate::MemoryError;

/// Marks a file as ours: the letters `PRVM`.
const APPLICATION_ID: i64 = 0x5052_564d;
/// The schema's history; a migration that was released never changes.
const MIGRATIONS: &[&str] = &[include_str!("../../migrations/0001_memory.sql")];
/// Prepared statements kept per connection: more than there are distinct statements.
const STATEMENTS_MAX: usize = 64;
/// How often a change of the journal mode is tried while somebody else opens the file; SQLite does not wait there by itself.
const JOURNAL_RETRY: Duration = Duration::from_millis(5);

/// One opening at a time per process: closing a handle drops all of a process's POSIX locks on the file.
static OPENING: Mutex<()> = Mutex::new(());

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Writer,
    Reader,
}

/// Opens the file for writing; creates and migrates it as needed.
pub(super) fn prepare(options: &SqliteOptions) -> Result<Connection, MemoryError> {
    let _one_at_a_time = OPENING.lock().unwrap_or_else(PoisonError::into_inner);
    create_file(&options.path)?;
    let mut connection = open(options)?;
    // Before anything is set: a file that is refused must stay as it is.
    identify(&connection, &options.path)?;
    use_write_ahead_log(&connection, options.busy_timeout)?;
    configure(&connection, Role::Writer)?;
    migrate(&mut connection)?;
    Ok(connection)
}

/// Opens one more connection to a file that was prepared.
pub(super) fn connect(options: &SqliteOptions, role: Role) -> Result<Connection, MemoryError> {
    let connection = open(options)?;
    configure(&connection, role)?;
    Ok(connection)
}

fn create_file(path: &Path) -> Result<(), MemoryError> {
    let refused =
        |at: &Path, error: &io::Error| MemoryError::Storage(format!("{}: {error}", at.display()));
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|error| refused(dir, &error))?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(refused(path, &error)),
    }
}

fn open(options: &SqliteOptions) -> Result<Connection, MemoryError> {
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(&options.path, flags)?;
    connection.busy_timeout(options.busy_timeout)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    Ok(connection)
}

fn number(connection: &Connection, sql: &str) -> Result<i64, MemoryError> {
    Ok(connection.query_row(sql, [], |row| row.get(0))?)
}

fn identify(connection: &Connection, path: &Path) -> Result<(), MemoryError> {
    let application = number(connection, "PRAGMA application_id")?;
    let version = number(connection, "PRAGMA user_version")?;
    let tables = number(connection, "SELECT count(*) FROM sqlite_schema")?;
    let path = path.display();
    match application {
        APPLICATION_ID if version > MIGRATIONS.len() as i64 => Err(MemoryError::File(format!(
            "{path} has schema {version}, this program knows {}: use a newer one",
            MIGRATIONS.len()
        ))),
        APPLICATION_ID => Ok(()),
        0 if version == 0 && tables == 0 => Ok(()),
        _ => Err(MemoryError::File(format!("{path} is a SQLite database of another program"))),
    }
}

fn use_write_ahead_log(connection: &Connection, patience: Duration) -> Result<(), MemoryError> {
    let started = Instant::now();
    loop {
        let mode: Result<String, _> =
            connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match mode.map_err(MemoryError::from) {
            Ok(mode) if mode == "wal" => return Ok(()),
            Ok(mode) => {
                let problem = format!("the file system allows only the journal mode `{mode}`");
                return Err(MemoryError::Storage(problem));
            }
            Err(MemoryError::Busy(_)) if started.elapsed() < patience => {
                thread::sleep(JOURNAL_RETRY);
            }
            Err(error) => return Err(error),
        }
    }
}

/// What is forgotten is also wiped from the pages of the file.
fn configure(connection: &Connection, role: Role) -> Result<(), MemoryError> {
    let (query_only, cache_kib) = match role {
        Role::Writer => ("OFF", 32 << 10),
        Role::Reader => ("ON", 16 << 10),
    };
    Ok(connection.execute_batch(&format!(
        "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA foreign_keys = ON;
         PRAGMA secure_delete = ON; PRAGMA query_only = {query_only};
         PRAGMA cache_size = -{cache_kib}; PRAGMA temp_store = MEMORY;
         PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;
         PRAGMA wal_autocheckpoint = 2000; PRAGMA journal_size_limit = {};",
        64 << 20
    ))?)
}

/// Brings the file to the newest schema. Two processes may do this at once: the version is read again under the lock.
fn migrate(connection: &mut Connection) -> Result<(), MemoryError> {
    for (version, sql) in (1i64..).zip(MIGRATIONS) {
        if number(connection, "PRAGMA user_version")? >= version {
            continue;
        }
        let tx = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
        if number(&tx, "PRAGMA user_version")? < version {
            tx.execute_batch(sql)?;
            tx.execute_batch(&format!(
                "PRAGMA application_id = {APPLICATION_ID}; PRAGMA user_version = {version}"
            ))?;
        }
        tx.commit()?;
    }
    Ok(())
}
