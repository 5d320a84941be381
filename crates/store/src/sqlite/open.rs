//! Opens database files and applies every setting that durability depends on.

use std::fs::{DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::{Sqlite, error, schema};
use crate::StoreError;
use crate::options::{Durability, StoreOptions};

/// Size of a connection's statement cache: more than the number of distinct statements.
const STATEMENTS_MAX: usize = 512;

/// Page cache of a connection, in KiB.
const CACHE_KIB: u32 = 4 << 10;

/// Size above which SQLite truncates the write-ahead log after a large transaction.
const LOG_BYTES_MAX: u32 = 64 << 20;

/// Interval between attempts to change the journal mode while another connection opens the file. SQLite does not wait
/// in this case.
const JOURNAL_RETRY: Duration = Duration::from_millis(5);

/// Serializes opening within the process. Closing any handle of a file releases all POSIX locks of the process on
/// that file, so the creation of the file must not overlap with the first lock of another connection.
static OPENING: Mutex<()> = Mutex::new(());

/// The use of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConnectionRole {
    Writer,
    Reader,
}

/// The content of a database file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DatabaseIdentity {
    /// The file is empty.
    Empty,
    /// A Provost database with this schema version.
    Provost(u32),
}

/// Opens the database for writing. Creates and migrates it if needed.
pub(crate) fn prepare(options: &StoreOptions) -> Result<Sqlite, StoreError> {
    let _guard = OPENING.lock();
    create_file(&options.path)?;
    let mut db = open_file(&options.path, options.busy_timeout)?;
    // Must run before any setting is applied, because a rejected file must stay unchanged.
    schema::check(&mut db, &options.schema)?;
    use_write_ahead_log(&mut db, options)?;
    configure(&mut db, ConnectionRole::Writer, options)?;
    schema::migrate(&mut db, &options.schema)?;
    Ok(db.with_scan_check())
}

/// Opens another connection to a prepared database.
pub(crate) fn connect(options: &StoreOptions, role: ConnectionRole) -> Result<Sqlite, StoreError> {
    let mut db = open_file(&options.path, options.busy_timeout)?;
    configure(&mut db, role, options)?;
    Ok(db)
}

/// Returns which program's database the file contains, on one snapshot. Fails for the database of another program.
pub(crate) fn identify(
    db: &mut Sqlite,
    application_id: i64,
) -> Result<DatabaseIdentity, StoreError> {
    db.begin_read()?;
    let header = read_header(db);
    db.rollback()?;
    let (application, version, tables) = header?;
    match (application, u32::try_from(version)) {
        (found, Ok(version)) if found == application_id => Ok(DatabaseIdentity::Provost(version)),
        (0, Ok(0)) if tables == 0 => Ok(DatabaseIdentity::Empty),
        _ => Err(StoreError::NotADatabase {
            path: db.path.clone(),
            detail: "it is a SQLite database of another program".into(),
        }),
    }
}

/// Returns the application id, the schema version and the number of tables.
fn read_header(db: &mut Sqlite) -> Result<(i64, i64, i64), StoreError> {
    let tables = db.number("SELECT count(*) FROM sqlite_schema")?;
    Ok((db.number("PRAGMA application_id")?, db.number("PRAGMA user_version")?, tables))
}

/// Creates the directory and an empty file that only the owner can access.
pub(crate) fn create_file(path: &Path) -> Result<(), StoreError> {
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|error| StoreError::file(dir, &error))?;
    }
    match OpenOptions::new().write(true).create_new(true).mode(0o600).open(path) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(StoreError::file(path, &error)),
    }
}

/// Opens a file that no other connection uses, without applying settings.
pub(crate) fn open_plain(path: &Path) -> Result<Sqlite, StoreError> {
    open_file(path, Duration::ZERO)
}

/// Opens a file that must stay unchanged.
pub(crate) fn open_read_only(path: &Path) -> Result<Sqlite, StoreError> {
    open_with(path, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

/// Opens a connection for writing with the settings that every connection has.
fn open_file(path: &Path, busy_timeout: Duration) -> Result<Sqlite, StoreError> {
    let db = open_with(path, OpenFlags::SQLITE_OPEN_READ_WRITE)?;
    db.connection().busy_timeout(busy_timeout).map_err(|cause| db.fault(cause))?;
    db.connection().set_prepared_statement_cache_capacity(STATEMENTS_MAX);
    // Without this setting, SQLite recompiles a statement whenever a parameter changes that its plan may depend on,
    // which it assumes for nearly every `ORDER BY`. None of our plans depends on parameter values.
    let stable = db.connection().set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true);
    stable.map_err(|cause| db.fault(cause))?;
    Ok(db)
}

/// Opens a connection with these flags.
fn open_with(path: &Path, flags: OpenFlags) -> Result<Sqlite, StoreError> {
    Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_NO_MUTEX)
        .map(|connection| Sqlite::new(connection, path.to_owned()))
        .map_err(|cause| error::translate(cause, path))
}

/// Switches the database to a write-ahead log. Retries while another process has it open, up to the busy timeout.
/// Fails if the file system does not support it and the schema requires it.
fn use_write_ahead_log(db: &mut Sqlite, options: &StoreOptions) -> Result<(), StoreError> {
    let started = Instant::now();
    loop {
        match db.text("PRAGMA journal_mode = WAL") {
            Ok(mode) if mode == "wal" || !options.schema.needs_write_ahead_log() => return Ok(()),
            Ok(mode) => {
                let detail = format!("the file system allows only the journal mode `{mode}`");
                return Err(StoreError::Io { detail });
            }
            Err(StoreError::Busy { .. }) if started.elapsed() < options.busy_timeout => {
                thread::sleep(JOURNAL_RETRY);
            }
            Err(error) => return Err(error),
        }
    }
}

/// Applies the settings of a connection. Memory-mapped reads stay off: with them, a damaged disk would kill the
/// process instead of failing a statement.
fn configure(
    db: &mut Sqlite,
    role: ConnectionRole,
    options: &StoreOptions,
) -> Result<(), StoreError> {
    let synchronous = match options.durability {
        Durability::PowerLoss => "FULL",
        Durability::ProcessExit => "OFF",
    };
    let query_only = match role {
        ConnectionRole::Writer => "OFF",
        ConnectionRole::Reader => "ON",
    };
    db.batch(&format!(
        "PRAGMA synchronous = {synchronous}; PRAGMA fullfsync = ON; PRAGMA foreign_keys = ON;
         PRAGMA query_only = {query_only}; PRAGMA cache_size = -{CACHE_KIB}; PRAGMA temp_store = MEMORY;
         PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON; PRAGMA journal_size_limit = {LOG_BYTES_MAX};"
    ))?;
    if options.schema.wipes_deleted_rows() {
        db.batch("PRAGMA secure_delete = ON")?;
    }
    if let Some(bytes_max) = options.bytes_max {
        let page_bytes = u64::try_from(db.number("PRAGMA page_size")?).unwrap_or(1).max(1);
        db.batch(&format!("PRAGMA max_page_count = {}", (bytes_max / page_bytes).max(1)))?;
    }
    Ok(())
}
