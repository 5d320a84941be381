//! Opening the file: whose it is, what is set, which schema it has.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use provost_core::text::first_chars;
use rusqlite::{Connection, ErrorCode, OpenFlags, TransactionBehavior};

use super::fault::io_kind;
use super::sql::Sql;
use crate::OpenError;

/// The schema this program writes.
const SCHEMA_VERSION: i64 = 2;
/// Characters of a table prefix.
const PREFIX_CHARS_MAX: usize = 32;
/// Prepared statements kept per connection: more than there are distinct statements.
const STATEMENTS_MAX: usize = 32;
/// Pages of the write-ahead log before it is moved to the file.
const CHECKPOINT_PAGES: u32 = 2000;
/// Bytes of the write-ahead log that are kept after it was moved.
const LOG_BYTES_MAX: u32 = 64 * 1024 * 1024;
/// How often a change of the journal mode is tried while somebody else opens the file; SQLite does not wait there by itself.
const JOURNAL_RETRY: Duration = Duration::from_millis(5);

/// One opening at a time per process: closing a handle drops all of a process's POSIX locks on the file.
static OPENING: Mutex<()> = Mutex::new(());

/// What a connection is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    Writer,
    Reader,
}

/// A file that was found to be ours, or was made so.
#[derive(Debug)]
pub(super) struct Place {
    /// The whole path, so that it stays the same file wherever the process goes.
    path: PathBuf,
    busy_timeout: Duration,
}

/// Refuses a prefix that cannot begin the name of a table.
pub(super) fn check_prefix(prefix: &str) -> Result<(), OpenError> {
    let legal = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let sound = prefix.len() <= PREFIX_CHARS_MAX
        && prefix.chars().all(legal)
        && !prefix.starts_with(|c: char| c.is_ascii_digit() || c == '_')
        && !prefix.starts_with("sqlite_");
    if sound {
        return Ok(());
    }
    let prefix = first_chars(prefix, 2 * PREFIX_CHARS_MAX).to_owned();
    Err(OpenError::Prefix { prefix, chars_max: PREFIX_CHARS_MAX })
}

/// Opens the file for writing; makes it and its tables as needed.
pub(super) fn prepare(
    path: &Path,
    busy_timeout: Duration,
    sql: &Sql,
) -> Result<(Place, Connection), OpenError> {
    let _one_at_a_time = OPENING.lock();
    let path = create_file(path).map_err(|(path, source)| OpenError::Storage { path, source })?;
    let place = Place { path, busy_timeout };
    let refused = |error| refusal(&place.path, error);
    let mut connection = place.open().map_err(refused)?;
    // Before anything is set: a file that is refused must stay as it is.
    schema(&connection, &place.path, sql)?;
    use_write_ahead_log(&connection, busy_timeout).map_err(refused)?;
    configure(&connection, Role::Writer).map_err(refused)?;
    migrate(&mut connection, &place.path, sql)?;
    Ok((place, connection))
}

impl Place {
    /// One more connection, which only reads.
    pub(super) fn reader(&self) -> rusqlite::Result<Connection> {
        let connection = self.open()?;
        configure(&connection, Role::Reader)?;
        Ok(connection)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    fn open(&self) -> rusqlite::Result<Connection> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&self.path, flags)?;
        connection.busy_timeout(self.busy_timeout)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS_MAX);
        Ok(connection)
    }
}

/// Makes the file and its directory, if they are missing, for their owner alone: a conversation can hold anything.
fn create_file(path: &Path) -> Result<PathBuf, (PathBuf, io::Error)> {
    let failed = |error| (path.to_owned(), error);
    if let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) {
        let mut builder = DirBuilder::new();
        builder.recursive(true);
        #[cfg(unix)]
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        builder.create(dir).map_err(failed)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    match options.open(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(failed(error)),
        _ => {}
    }
    fs::canonicalize(path).map_err(failed)
}

fn refusal(path: &Path, error: rusqlite::Error) -> OpenError {
    let path = path.to_owned();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            OpenError::Damaged { path, problem: error.to_string() }
        }
        code => OpenError::Storage { path, source: io::Error::new(io_kind(code), error) },
    }
}

/// The schema of the tables under this prefix; `None` if there are none yet.
fn schema(connection: &Connection, path: &Path, sql: &Sql) -> Result<Option<i64>, OpenError> {
    let refused = |error| refusal(path, error);
    let ours = |table: &str| -> rusqlite::Result<bool> {
        let found = "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = ?1 COLLATE NOCASE)";
        connection.query_row(found, [table], |row| row.get(0))
    };
    if !ours(&sql.version_table).map_err(refused)? {
        for table in sql.data_tables() {
            if ours(table).map_err(refused)? {
                let (path, table) = (path.to_owned(), table.to_owned());
                return Err(OpenError::Taken { path, table });
            }
        }
        return Ok(None);
    }
    let version: Result<i64, _> = connection.query_row(&sql.version, [], |row| row.get(0));
    match version {
        Ok(found) if found > SCHEMA_VERSION => {
            Err(OpenError::Newer { path: path.to_owned(), found, known: SCHEMA_VERSION })
        }
        Ok(found) => Ok(Some(found)),
        // Not one of ours has another shape, or no row.
        Err(error) if matches!(error.sqlite_error_code(), None | Some(ErrorCode::Unknown)) => {
            Err(OpenError::Taken { path: path.to_owned(), table: sql.version_table.clone() })
        }
        Err(error) => Err(refused(error)),
    }
}

fn use_write_ahead_log(connection: &Connection, patience: Duration) -> rusqlite::Result<()> {
    let started = Instant::now();
    loop {
        let mode: rusqlite::Result<String> =
            connection.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0));
        match mode {
            Err(error)
                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && started.elapsed() < patience =>
            {
                thread::sleep(JOURNAL_RETRY);
            }
            // A file system without shared memory allows other modes only; they are as safe, and slower.
            other => return other.map(drop),
        }
    }
}

/// What is deleted is also wiped from the pages of the file.
fn configure(connection: &Connection, role: Role) -> rusqlite::Result<()> {
    let query_only = if role == Role::Reader { "ON" } else { "OFF" };
    connection.execute_batch(&format!(
        "PRAGMA synchronous = FULL; PRAGMA fullfsync = ON; PRAGMA foreign_keys = ON;
         PRAGMA secure_delete = ON; PRAGMA query_only = {query_only};
         PRAGMA trusted_schema = OFF; PRAGMA cell_size_check = ON;
         PRAGMA wal_autocheckpoint = {CHECKPOINT_PAGES}; PRAGMA journal_size_limit = {LOG_BYTES_MAX};"
    ))
}

/// Makes the tables. Two processes may do this at once: what is there is looked at again under the lock.
fn migrate(connection: &mut Connection, path: &Path, sql: &Sql) -> Result<(), OpenError> {
    let refused = |error| refusal(path, error);
    let tx =
        connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(refused)?;
    let found = schema(&tx, path, sql)?;
    if found.is_none() {
        tx.execute_batch(&sql.create).map_err(refused)?;
        tx.execute(&sql.set_version, [SCHEMA_VERSION]).map_err(refused)?;
    }
    if found.is_none_or(|found| found < SCHEMA_VERSION) {
        tx.execute_batch(&sql.create_values).map_err(refused)?;
        tx.execute(&sql.raise_version, [SCHEMA_VERSION]).map_err(refused)?;
    }
    tx.commit().map_err(refused)
}
