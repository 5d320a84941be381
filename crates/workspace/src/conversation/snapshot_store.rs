//! Durable storage for snapshots: records by key, contents by hash.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

/// Durable storage for snapshots. What a call has returned from is still there after a crash.
///
/// All of it is called on threads that may block. Keys and hashes are lower-case hex digits.
pub trait Keep: Send + Sync + 'static {
    /// What is known of a workspace.
    fn record(&self, key: &str) -> io::Result<Option<Vec<u8>>>;

    /// Puts it in place of what was known, all or nothing.
    fn put_record(&self, key: &str, record: &[u8]) -> io::Result<()>;

    /// A content of a workspace.
    fn content(&self, key: &str, hash: &str) -> io::Result<Option<Vec<u8>>>;

    /// Stores a content unless it is there.
    fn put_content(&self, key: &str, hash: &str, bytes: &[u8]) -> io::Result<()>;

    /// Takes away every content of a workspace but these.
    fn retain(&self, key: &str, hashes: &BTreeSet<String>) -> io::Result<()>;

    /// Takes away everything of a workspace.
    fn forget(&self, key: &str) -> io::Result<()>;
}

/// Snapshots in a directory, for its owner only.
#[derive(Debug, Clone)]
pub struct DirKeep {
    dir: PathBuf,
}

impl DirKeep {
    /// In this directory, which is made when it is needed.
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    fn record_path(&self, key: &str) -> PathBuf {
        self.dir.join(key).join("record.json")
    }

    fn contents(&self, key: &str) -> PathBuf {
        self.dir.join(key).join("contents")
    }
}

impl Keep for DirKeep {
    fn record(&self, key: &str) -> io::Result<Option<Vec<u8>>> {
        found(fs::read(self.record_path(key)))
    }

    fn put_record(&self, key: &str, record: &[u8]) -> io::Result<()> {
        put(&self.record_path(key), record)
    }

    fn content(&self, key: &str, hash: &str) -> io::Result<Option<Vec<u8>>> {
        found(fs::read(self.contents(key).join(hash)))
    }

    fn put_content(&self, key: &str, hash: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.contents(key).join(hash);
        // One that is there is whole: it got its name after it was written.
        if path.exists() { Ok(()) } else { put(&path, bytes) }
    }

    fn retain(&self, key: &str, hashes: &BTreeSet<String>) -> io::Result<()> {
        let Some(entries) = found(fs::read_dir(self.contents(key)))? else { return Ok(()) };
        for entry in entries {
            let entry = entry?;
            let is_kept = entry.file_name().to_str().is_some_and(|name| hashes.contains(name));
            if !is_kept {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn forget(&self, key: &str) -> io::Result<()> {
        found(fs::remove_dir_all(self.dir.join(key))).map(drop)
    }
}

/// Writes a file, all or nothing, and waits until it is on the disk under its name.
fn put(path: &Path, bytes: &[u8]) -> io::Result<()> {
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

fn found<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}
