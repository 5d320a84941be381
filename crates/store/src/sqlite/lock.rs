//! File locks of the operating system, which prove that a process is dead.
//!
//! A lock belongs to an open file. The operating system releases it when the process exits for any reason, and a
//! frozen process keeps it. The lock therefore distinguishes a dead owner from a slow one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use provost_core::WorkerId;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::StoreError;

/// File name of the lock that every process with the open database holds. It cannot collide with worker locks, which
/// end in `.lock`.
const DATABASE_LOCK: &str = "database";

/// The lock of a running worker. It is unlocked exactly when the worker's process has exited.
///
/// Worker ids are never reused, so a lock that was seen unlocked stays unlocked.
#[derive(Debug)]
pub struct WorkerLock {
    path: PathBuf,
    _file: File,
}

impl WorkerLock {
    /// Acquires the lock of `worker` in `dir`. Creates the directory if it is missing.
    pub fn acquire(dir: &Path, worker: WorkerId) -> Result<Self, StoreError> {
        let path = dir.join(format!("{worker}.lock"));
        let file = open_lock(&path)?;
        if !try_lock(&file, &path, FlockOperation::NonBlockingLockExclusive)? {
            return Err(StoreError::Locked { path });
        }
        Ok(Self { path, _file: file })
    }

    /// Returns the path of the lock file, for [`is_unlocked`].
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for WorkerLock {
    /// Removes the file. A leftover file is harmless because it is unlocked.
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, "store: a lock file stays behind");
        }
    }
}

/// Returns true if the process that held the lock at `path` has exited. A missing file counts as unlocked.
pub fn is_unlocked(path: &Path) -> Result<bool, StoreError> {
    match File::open(path) {
        // A shared lock, so that two concurrent tests do not block each other.
        Ok(file) => try_lock(&file, path, FlockOperation::NonBlockingLockShared),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(StoreError::file(path, &error)),
    }
}

/// Returns the directory for the lock files of the database at `database`.
pub fn lock_dir(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".workers");
    PathBuf::from(name)
}

/// The lock that every store with the open database holds in shared mode, and a process that replaces the database in
/// exclusive mode.
#[derive(Debug)]
pub(crate) struct DatabaseLock {
    _file: File,
}

impl DatabaseLock {
    /// Acquires the lock together with other users of the database. Fails with [`StoreError::Locked`] during a
    /// restore.
    pub(crate) fn shared(database: &Path) -> Result<Self, StoreError> {
        Self::acquire(database, FlockOperation::NonBlockingLockShared)
    }

    /// Acquires the lock. Fails with [`StoreError::Locked`] if another process has the database open.
    pub(crate) fn exclusive(database: &Path) -> Result<Self, StoreError> {
        Self::acquire(database, FlockOperation::NonBlockingLockExclusive)
    }

    /// Acquires the lock without waiting. Fails with [`StoreError::Locked`] if another process excludes it.
    fn acquire(database: &Path, operation: FlockOperation) -> Result<Self, StoreError> {
        let path = lock_dir(database).join(DATABASE_LOCK);
        let file = open_lock(&path)?;
        if try_lock(&file, &path, operation)? {
            Ok(Self { _file: file })
        } else {
            Err(StoreError::Locked { path })
        }
    }
}

/// Opens a lock file. Creates it and its directory if they are missing.
fn open_lock(path: &Path) -> Result<File, StoreError> {
    if let Some(dir) = path.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(|error| StoreError::file(dir, &error))?;
    }
    OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(path)
        .map_err(|error| StoreError::file(path, &error))
}

/// Locks a file without waiting. Returns false if another process excludes it.
fn try_lock(file: &File, path: &Path, operation: FlockOperation) -> Result<bool, StoreError> {
    match flock(file, operation) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(StoreError::file(path, &error.into())),
    }
}
