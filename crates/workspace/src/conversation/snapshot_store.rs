//! Durable store of snapshots: records by key, contents by hash.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Durable store of snapshots. The effect of a call that returned survives a crash.
///
/// All methods are called on threads that may block. Keys and hashes are lower-case hexadecimal digits.
pub trait SnapshotStore: Send + Sync + 'static {
    /// Returns the record of a workspace. `None` if there is none.
    fn record(&self, key: &str) -> io::Result<Option<Vec<u8>>>;

    /// Replaces the record of a workspace atomically.
    fn put_record(&self, key: &str, record: &[u8]) -> io::Result<()>;

    /// Returns a content of a workspace by its hash. `None` if it is not stored.
    fn content(&self, key: &str, hash: &str) -> io::Result<Option<Vec<u8>>>;

    /// Stores a content unless it exists.
    fn put_content(&self, key: &str, hash: &str, bytes: &[u8]) -> io::Result<()>;

    /// Deletes all contents of a workspace except these.
    fn retain(&self, key: &str, hashes: &BTreeSet<String>) -> io::Result<()>;

    /// Deletes the record and all contents of a workspace.
    fn delete(&self, key: &str) -> io::Result<()>;
}

/// Stores snapshots in a directory that only its owner can access.
#[derive(Debug, Clone)]
pub struct DirSnapshotStore {
    dir: PathBuf,
}

impl DirSnapshotStore {
    /// Creates a store in a directory. The directory is created by the first write.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Returns the path of a workspace's record.
    fn record_path(&self, key: &str) -> PathBuf {
        self.dir.join(key).join("record.json")
    }

    /// Returns the path of the directory with a workspace's contents.
    fn contents(&self, key: &str) -> PathBuf {
        self.dir.join(key).join("contents")
    }
}

impl SnapshotStore for DirSnapshotStore {
    fn record(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        optional(fs::read(self.record_path(key)))
    }

    fn put_record(&self, key: &str, record: &[u8]) -> io::Result<()> {
        write_durably(&self.record_path(key), record)
    }

    fn content(&self, key: &str, hash: &str) -> io::Result<Option<Vec<u8>>> {
        optional(fs::read(self.contents(key).join(hash)))
    }

    fn put_content(&self, key: &str, hash: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.contents(key).join(hash);
        // An existing file is complete: it was renamed after it had been written.
        if path.exists() { Ok(()) } else { write_durably(&path, bytes) }
    }

    fn retain(&self, key: &str, hashes: &BTreeSet<String>) -> io::Result<()> {
        let Some(entries) = optional(fs::read_dir(self.contents(key)))? else { return Ok(()) };
        for entry in entries {
            let entry = entry?;
            let is_kept = entry.file_name().to_str().is_some_and(|name| hashes.contains(name));
            if !is_kept {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn delete(&self, key: &str) -> io::Result<()> {
        optional(fs::remove_dir_all(self.dir.join(key))).map(drop)
    }
}

/// Writes a file atomically, and waits until it is durable.
fn write_durably(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
    let draft = path.with_extension("draft");
    let mut file = File::create(&draft)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    drop(file);
    fs::rename(&draft, path)?;
    File::open(dir)?.sync_all()
}

/// Converts a missing file to `None`.
fn optional<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
