//! The write-ahead log of the writer, written with one call of the system for each commit.
//!
//! SQLite hands each page of a commit to the system by two calls, one for the page and one for its header, and a commit of a run
//! has ten pages, one of many runs forty. All of them follow each other in the file, so they are collected here and written at
//! once when SQLite wants them on disk, or wants anything else of the file.
//!
//! That is right only
//! - if SQLite syncs the log before it tells others of a commit, which it does with `synchronous = FULL`: others look at what was
//!   told to them, and read the file by handles of their own;
//! - if nothing is written to the log but commits, which is so with `cache_spill = OFF`. What a transaction leaves here that is
//!   given up later would be written over what another process has committed meanwhile. What a failed commit leaves is dropped.
//!
//! Nothing else is changed: files other than the log are SQLite's own, and a failure to write is told when the log is synced,
//! where it fails the commit.
#![expect(unsafe_code, reason = "SQLite asks for its files by pointers to functions in C")]

use std::ffi::{CStr, OsStr, c_int, c_void};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::OnceLock;

use rusqlite::ffi::{
    SQLITE_IOERR, SQLITE_IOERR_FSYNC, SQLITE_OK, SQLITE_OPEN_WAL, sqlite3_file, sqlite3_filename,
    sqlite3_int64, sqlite3_io_methods, sqlite3_vfs, sqlite3_vfs_find, sqlite3_vfs_register,
};

/// What connections with such a log are opened by.
const NAME: &CStr = c"provost-log";

/// Bytes that are collected at most.
const COLLECTED_MAX: usize = 1 << 20;

/// Bytes that are written by one call: the longest page, and less than SQLite's own way to files can write at once.
const PIECE_MAX: usize = 1 << 16;

/// SQLite's own way to files, which does the work.
struct Own(*mut sqlite3_vfs);

// SAFETY: SQLite's ways to files are never removed here, and may be used by any thread.
unsafe impl Send for Own {}
// SAFETY: as above.
unsafe impl Sync for Own {}

static OWN: OnceLock<Option<Own>> = OnceLock::new();

/// The name to open a connection by, for one whose log is synced with each commit. Nothing, if SQLite does not take it: its own
/// way to files does the same, more slowly.
pub(super) fn name() -> Option<&'static CStr> {
    OWN.get_or_init(register).as_ref().map(|_| NAME)
}

fn register() -> Option<Own> {
    // SAFETY: without a name this gives the default, which lives as long as the process.
    let own = unsafe { sqlite3_vfs_find(ptr::null()) };
    // SAFETY: it is null or points to a valid one, which is copied.
    let mut ours = *unsafe { own.as_ref() }?;
    ours.szOsFile += c_int::try_from(size_of::<LogFile>()).ok()?;
    ours.zName = NAME.as_ptr();
    ours.pNext = ptr::null_mut();
    ours.xOpen = Some(open);
    // SAFETY: it is never freed, and everything in it but what is set above is SQLite's own.
    let taken = unsafe { sqlite3_vfs_register(Box::into_raw(Box::new(ours)), 0) };
    (taken == SQLITE_OK).then_some(Own(own))
}

/// Calls a method of the file itself.
macro_rules! own {
    ($file:expr, $method:ident $(, $argument:expr)*) => {{
        let file = behind($file);
        match (*(*file).pMethods).$method {
            Some(method) => method(file $(, $argument)*),
            None => SQLITE_IOERR,
        }
    }};
}

/// Methods that are the file's own, once everything is written that was collected before.
macro_rules! after_what_was_collected {
    ($($name:ident = $method:ident($($argument:ident: $type:ty),*);)*) => {$(
        unsafe extern "C" fn $name(file: *mut sqlite3_file $(, $argument: $type)*) -> c_int {
            // SAFETY: SQLite calls this with an open log only, and means what it says for the file itself.
            unsafe {
                match flush(file) {
                    SQLITE_OK => own!(file, $method $(, $argument)*),
                    code => code,
                }
            }
        }
    )*};
}

/// A log as SQLite holds it, in memory of SQLite's; behind it is the file itself.
#[repr(C, align(8))]
struct LogFile {
    /// First, because that is what SQLite sees of it.
    seen: sqlite3_file,
    collected: *mut Collected,
}

/// What was written and not given to the system yet.
#[derive(Default)]
struct Collected {
    from: sqlite3_int64,
    bytes: Vec<u8>,
    /// The same file, to be synced without what nobody needs to find its bytes, such as when it was written last. SQLite has no
    /// lock on a log that closing this could take away.
    file: Option<File>,
    /// Set once SQLite has synced the file itself, and with it the directory that it is in.
    was_synced: bool,
}

static METHODS: sqlite3_io_methods = sqlite3_io_methods {
    // Neither shared memory nor mapped pages: SQLite asks for these with the database file only.
    iVersion: 1,
    xClose: Some(close),
    xRead: Some(read),
    xWrite: Some(write),
    xTruncate: Some(truncate),
    xSync: Some(sync),
    xFileSize: Some(file_size),
    xLock: Some(lock),
    xUnlock: Some(unlock),
    xCheckReservedLock: Some(check_reserved_lock),
    xFileControl: Some(file_control),
    xSectorSize: Some(sector_size),
    xDeviceCharacteristics: Some(device_characteristics),
    xShmMap: None,
    xShmLock: None,
    xShmBarrier: None,
    xShmUnmap: None,
    xFetch: None,
    xUnfetch: None,
};

unsafe extern "C" fn open(
    _: *mut sqlite3_vfs,
    name: sqlite3_filename,
    file: *mut sqlite3_file,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    let Some(Some(Own(own))) = OWN.get() else { return SQLITE_IOERR };
    // SAFETY: SQLite gives memory for a `LogFile` and, behind it, for a file of its own. Only a log gets the former: any other
    // file is SQLite's own at once, in memory that is larger than it needs.
    unsafe {
        let Some(open_own) = (**own).xOpen else { return SQLITE_IOERR };
        if flags & SQLITE_OPEN_WAL == 0 {
            return open_own(*own, name, file, flags, out);
        }
        let log = file.cast::<LogFile>();
        (*log).seen.pMethods = ptr::null();
        (*log).collected = ptr::null_mut();
        let code = open_own(*own, name, behind(file), flags, out);
        // Without methods there is nothing to close, whatever came of it.
        if !(*behind(file)).pMethods.is_null() {
            let path =
                (!name.is_null()).then(|| OsStr::from_bytes(CStr::from_ptr(name).to_bytes()));
            let file = path.and_then(|path| File::open(path).ok());
            let collected = Collected { file, ..Collected::default() };
            (*log).collected = Box::into_raw(Box::new(collected));
            (*log).seen.pMethods = &raw const METHODS;
        }
        code
    }
}

/// The file itself.
///
/// # Safety
/// `file` must be a [`LogFile`] in memory that SQLite gave.
unsafe fn behind(file: *mut sqlite3_file) -> *mut sqlite3_file {
    // SAFETY: SQLite gives as much memory as was asked for, and a `LogFile` is aligned like what follows it.
    unsafe { file.cast::<LogFile>().add(1).cast() }
}

/// Gives the system what was collected.
///
/// # Safety
/// `file` must be an open [`LogFile`].
unsafe fn flush(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite uses a file from one thread at a time, so nobody else looks at what is collected.
    let collected = unsafe { &mut *(*file.cast::<LogFile>()).collected };
    if collected.bytes.is_empty() {
        return SQLITE_OK;
    }
    let mut code = SQLITE_OK;
    let mut from = collected.from;
    for piece in collected.bytes.chunks(PIECE_MAX) {
        let length = piece.len() as c_int;
        // SAFETY: the file behind is open, and the bytes stay where they are until it returns.
        code = unsafe { own!(file, xWrite, piece.as_ptr().cast(), length, from) };
        if code != SQLITE_OK {
            break;
        }
        from += sqlite3_int64::from(length);
    }
    collected.bytes.clear();
    code
}

unsafe extern "C" fn write(
    file: *mut sqlite3_file,
    bytes: *const c_void,
    length: c_int,
    from: sqlite3_int64,
) -> c_int {
    let Ok(length) = usize::try_from(length) else { return SQLITE_IOERR };
    // SAFETY: SQLite calls this with an open log only, and with that many bytes.
    unsafe {
        let collected = (*file.cast::<LogFile>()).collected;
        let kept = (*collected).bytes.len();
        let follows = i64::try_from(kept).is_ok_and(|kept| (*collected).from + kept == from);
        if !follows || kept + length > COLLECTED_MAX {
            let code = flush(file);
            if code != SQLITE_OK {
                return code;
            }
        }
        let collected = &mut *collected;
        if collected.bytes.is_empty() {
            collected.from = from;
        }
        collected.bytes.extend_from_slice(std::slice::from_raw_parts(bytes.cast(), length));
    }
    SQLITE_OK
}

unsafe extern "C" fn close(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite calls this once, with an open log; what was collected was made by `open` and is not used again.
    unsafe {
        let flushed = flush(file);
        drop(Box::from_raw((*file.cast::<LogFile>()).collected));
        let closed = own!(file, xClose);
        if flushed == SQLITE_OK { closed } else { flushed }
    }
}

unsafe extern "C" fn sync(file: *mut sqlite3_file, flags: c_int) -> c_int {
    // SAFETY: SQLite calls this with an open log only, from one thread at a time.
    unsafe {
        let code = flush(file);
        if code != SQLITE_OK {
            return code;
        }
        let collected = &mut *(*file.cast::<LogFile>()).collected;
        match &collected.file {
            Some(same) if collected.was_synced => {
                same.sync_data().map_or(SQLITE_IOERR_FSYNC, |()| SQLITE_OK)
            }
            _ => {
                let code = own!(file, xSync, flags);
                collected.was_synced = code == SQLITE_OK;
                code
            }
        }
    }
}

after_what_was_collected! {
    read = xRead(bytes: *mut c_void, length: c_int, from: sqlite3_int64);
    truncate = xTruncate(size: sqlite3_int64);
    file_size = xFileSize(size: *mut sqlite3_int64);
    lock = xLock(level: c_int);
    unlock = xUnlock(level: c_int);
    check_reserved_lock = xCheckReservedLock(out: *mut c_int);
    file_control = xFileControl(what: c_int, argument: *mut c_void);
}

unsafe extern "C" fn sector_size(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite calls this with an open log only.
    unsafe { own!(file, xSectorSize) }
}

unsafe extern "C" fn device_characteristics(file: *mut sqlite3_file) -> c_int {
    // SAFETY: SQLite calls this with an open log only.
    unsafe { own!(file, xDeviceCharacteristics) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;
    use std::path::Path;

    use rusqlite::{Connection, OpenFlags};

    use super::name;

    /// Rows whose pages are more than a small cache holds, and more bytes than are collected.
    const MANY: u32 = 3000;

    fn open(path: &Path, spill: &str) -> Connection {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE;
        let db = Connection::open_with_flags_and_vfs(path, flags, name().unwrap()).unwrap();
        db.execute_batch(&format!(
            "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; PRAGMA cache_size = 10; PRAGMA wal_autocheckpoint = 0;
             PRAGMA cache_spill = {spill}"
        ))
        .unwrap();
        db
    }

    fn count(db: &Connection) -> u32 {
        db.query_row("SELECT count(*) FROM t WHERE length(x) = 900", [], |row| row.get(0)).unwrap()
    }

    fn add(db: &Connection, rows: u32) {
        let mut insert = db.prepare("INSERT INTO t VALUES (?1, ?2)").unwrap();
        let first: u32 =
            db.query_row("SELECT coalesce(max(n), 0) FROM t", [], |row| row.get(0)).unwrap();
        for n in 1..=rows {
            insert.execute((first + n, "x".repeat(900))).unwrap();
        }
    }

    #[test]
    fn what_was_collected_is_read_by_whoever_may_see_it() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let (db, other) = (open(&path, "ON"), Connection::open(&path).unwrap());
        db.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY, x TEXT)").unwrap();
        for round in 1..=3 {
            db.execute_batch("BEGIN").unwrap();
            add(&db, MANY);
            // What does not fit into the cache is in the log, and is read from there.
            assert_eq!(count(&db), round * MANY);
            assert_eq!(count(&other), (round - 1) * MANY);
            db.execute_batch("COMMIT").unwrap();
            assert_eq!(count(&other), round * MANY);
        }
        db.execute_batch("BEGIN").unwrap();
        add(&db, MANY);
        db.execute_batch("ROLLBACK; BEGIN").unwrap();
        add(&db, 7);
        db.execute_batch("COMMIT").unwrap();
        assert_eq!(count(&other), 3 * MANY + 7);
        // Another handle moves the log to the database, and finds all of it there.
        other.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
        let sound: String =
            other.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!((sound.as_str(), count(&db)), ("ok", 3 * MANY + 7));
    }

    #[test]
    fn what_was_given_up_is_never_written_over_what_others_committed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let (db, other) = (open(&path, "OFF"), Connection::open(&path).unwrap());
        db.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY, x TEXT)").unwrap();
        for round in 1..=3 {
            db.execute_batch("BEGIN").unwrap();
            // More than the cache holds, and less than is collected.
            add(&db, 150);
            db.execute_batch("ROLLBACK").unwrap();
            other.execute_batch("BEGIN").unwrap();
            add(&other, 100);
            other.execute_batch("COMMIT").unwrap();
            // Both a look at the log and the next commit would write what was left.
            assert_eq!(count(&db), round * 101 - 1);
            add(&db, 1);
            assert_eq!(count(&other), round * 101);
        }
        let sound: String =
            other.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
        assert_eq!(sound, "ok");
    }

    #[test]
    fn a_commit_is_in_the_file_when_it_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.db");
        let db = open(&path, "OFF");
        db.execute_batch("CREATE TABLE t (n INTEGER PRIMARY KEY, x TEXT)").unwrap();
        for round in 1..=20 {
            add(&db, 1);
            // As a crash of the process would leave it: nothing of what the process itself still holds.
            let copy = dir.path().join(format!("{round}.db"));
            for end in ["", "-wal"] {
                let from = dir.path().join(format!("a.db{end}"));
                let length = std::fs::metadata(&from).unwrap().len();
                let mut bytes = vec![0; usize::try_from(length).unwrap()];
                std::fs::File::open(&from).unwrap().read_exact_at(&mut bytes, 0).unwrap();
                std::fs::write(format!("{}{end}", copy.display()), bytes).unwrap();
            }
            assert_eq!(count(&Connection::open(&copy).unwrap()), round);
        }
    }
}
