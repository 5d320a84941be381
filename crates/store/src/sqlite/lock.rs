//! Locks of the operating system: the proof that a process is dead.
//!
//! A lock belongs to an open file and goes when the process goes, however it goes. A frozen process keeps it.
//! That is why a dead owner can be told from a slow one.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use provost_core::WorkerId;
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::StoreError;

/// The name of the lock that everybody holds who has the database open. No worker's lock has it: those end in `.lock`.
const DATABASE_LOCK: &str = "database";

/// The lock of one running node: free exactly when its process is gone.
///
/// A worker id is used by one process only and never again, so a lock that was seen free stays free.
#[derive(Debug)]
pub struct NodeLock {
    path: PathBuf,
    _file: File,
}

impl NodeLock {
    /// Takes the lock of `worker` in `dir`, which is created if it is missing.
    pub fn acquire(dir: &Path, worker: WorkerId) -> Result<Self, StoreError> {
        let path = dir.join(format!("{worker}.lock"));
        let file = open_lock(&path)?;
        if !try_lock(&file, &path, FlockOperation::NonBlockingLockExclusive)? {
            return Err(StoreError::Locked { path });
        }
        Ok(Self { path, _file: file })
    }

    /// The lock file, which others test with [`is_free`].
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for NodeLock {
    /// A clean end leaves no file behind. One that stays is harmless: it is free.
    fn drop(&mut self) {
        if let Err(error) = fs::remove_file(&self.path) {
            tracing::debug!(%error, "store: a lock file stays behind");
        }
    }
}

/// True if the process that held the lock at `path` is gone. A missing file counts as gone.
pub fn is_free(path: &Path) -> Result<bool, StoreError> {
    match File::open(path) {
        // Shared, so that two who ask at once do not see each other.
        Ok(file) => try_lock(&file, path, FlockOperation::NonBlockingLockShared),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
        Err(error) => Err(StoreError::file(path, &error)),
    }
}

/// The directory with the locks of everybody who works on the database at `database`.
pub fn lock_dir(database: &Path) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(".workers");
    PathBuf::from(name)
}

/// Held by each store that has the database open, or by one process that replaces it.
#[derive(Debug)]
pub(crate) struct DatabaseLock {
    _file: File,
}

impl DatabaseLock {
    /// Together with other users of the database.
    pub(crate) fn shared(database: &Path) -> Result<Self, StoreError> {
        Self::acquire(database, FlockOperation::NonBlockingLockShared)
    }

    /// Alone.
    pub(crate) fn exclusive(database: &Path) -> Result<Self, StoreError> {
        Self::acquire(database, FlockOperation::NonBlockingLockExclusive)
    }

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

fn try_lock(file: &File, path: &Path, operation: FlockOperation) -> Result<bool, StoreError> {
    match flock(file, operation) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(StoreError::file(path, &error.into())),
    }
}
