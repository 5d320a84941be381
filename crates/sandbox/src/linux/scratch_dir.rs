//! The private directory of this process for its sandboxes, and the removal of abandoned ones.
//!
//! The name of the directory contains the id and the start time of its process. Opening a scratch directory removes
//! those of processes that no longer exist.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::linux::process_tree;

/// Prefix of the directory names.
const PREFIX: &str = "provost-sandbox-";
/// Maximum number of attempts to find an unused name.
const ATTEMPTS_MAX: u32 = 100;
/// Number of the next directory. Numbers are not reused: a delayed removal could otherwise delete the next directory of
/// the same name.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A private directory of this process. It is removed with its last clone.
#[derive(Debug, Clone)]
pub struct ScratchDir(Arc<ScratchDirInner>);

#[derive(Debug)]
struct ScratchDirInner {
    dir: PathBuf,
    /// Identity of the process and number of the directory.
    name: String,
    next: AtomicU64,
}

impl ScratchDir {
    /// Creates a directory in the directory for temporary files.
    pub fn open() -> io::Result<Self> {
        Self::open_in(&std::env::temp_dir())
    }

    /// Creates a directory below `parent` and removes abandoned ones.
    pub fn open_in(parent: &Path) -> io::Result<Self> {
        sweep(parent);
        let process_identity = process_identity();
        for _ in 0..ATTEMPTS_MAX {
            let name = format!("{process_identity}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
            let dir = parent.join(format!("{PREFIX}{name}"));
            match DirBuilder::new().mode(0o700).create(&dir) {
                Ok(()) => {
                    let dir = dir.canonicalize()?;
                    return Ok(Self(Arc::new(ScratchDirInner {
                        dir,
                        name,
                        next: AtomicU64::new(0),
                    })));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Returns the path of the directory.
    pub fn path(&self) -> &Path {
        &self.0.dir
    }

    /// Creates a directory for one job.
    pub(crate) fn create_job_dir(&self) -> io::Result<JobDir> {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let dir = self.0.dir.join(number.to_string());
        DirBuilder::new().mode(0o700).create(&dir)?;
        let name = format!("{}-{number}", self.0.name);
        Ok(JobDir { dir, name, _scratch: self.clone() })
    }
}

impl Drop for ScratchDirInner {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            tracing::debug!(%error, "cannot remove the directory of the sandboxes");
        }
    }
}

/// The directory of one job. It is removed with the job.
#[derive(Debug)]
pub(crate) struct JobDir {
    dir: PathBuf,
    name: String,
    _scratch: ScratchDir,
}

impl JobDir {
    /// Returns the path of the directory.
    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }

    /// Returns the name of the job, which is unique on this machine.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl JobDir {
    /// Returns true if the directory has few entries and no non-empty subdirectory. Removes empty subdirectories.
    pub(crate) fn is_small(&self) -> bool {
        const SMALL_MAX: usize = 8;
        let Ok(entries) = fs::read_dir(&self.dir) else { return true };
        let is_file_or_empty_dir = |entry: io::Result<fs::DirEntry>| {
            entry.is_ok_and(|entry| match entry.file_type() {
                Ok(kind) if kind.is_dir() => fs::remove_dir(entry.path()).is_ok(),
                kind => kind.is_ok(),
            })
        };
        let mut entries = entries.take(SMALL_MAX + 1).enumerate();
        entries.all(|(at, entry)| at < SMALL_MAX && is_file_or_empty_dir(entry))
    }
}

impl Drop for JobDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            tracing::debug!(%error, "cannot remove the directory of a job");
        }
    }
}

/// Returns the unique identity of this process: its id and start time.
pub(crate) fn process_identity() -> String {
    let pid = std::process::id();
    format!("{pid}-{}", process_tree::start_time(pid).unwrap_or_default())
}

/// Returns true if a name begins with the identity of a process that no longer exists.
pub(crate) fn is_orphaned(name: &str) -> bool {
    let mut parts = name.split('-');
    let (Some(pid), Some(start)) = (parts.next(), parts.next()) else { return false };
    match (pid.parse::<u32>(), start.parse::<u64>()) {
        (Ok(pid), Ok(start)) => process_tree::start_time(pid) != Some(start),
        _ => false,
    }
}

/// Removes the directories of processes that no longer exist.
fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let process_identity = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_dir && process_identity.is_some_and(is_orphaned) {
            // Directories of other users cannot be removed. Their owners remove them.
            fs::remove_dir_all(entry.path()).unwrap_or_default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_that_is_no_more_has_left_is_taken_away() {
        let parent = tempfile::tempdir().unwrap();
        let abandoned = parent.path().join(format!("{PREFIX}4000000-1-0"));
        let ours = parent.path().join(format!("{PREFIX}{}-x", process_identity()));
        let other = parent.path().join("provost-something");
        for dir in [&abandoned, &ours, &other] {
            fs::create_dir(dir).unwrap();
        }
        fs::write(abandoned.join("file"), b"x").unwrap();
        let scratch = ScratchDir::open_in(parent.path()).unwrap();
        assert!(!abandoned.exists());
        assert!(ours.exists() && other.exists());
        let job = scratch.create_job_dir().unwrap();
        let (dir, job_dir) = (scratch.path().to_owned(), job.path().to_owned());
        drop(scratch);
        assert!(job_dir.exists(), "a job keeps its directory");
        drop(job);
        assert!(!job_dir.exists() && !dir.exists());
    }

    #[test]
    fn no_name_comes_back() {
        let parent = tempfile::tempdir().unwrap();
        let first = ScratchDir::open_in(parent.path()).unwrap().path().to_owned();
        assert!(!first.exists());
        assert_ne!(ScratchDir::open_in(parent.path()).unwrap().path(), first);
    }

    #[test]
    fn names_of_others_are_left_alone() {
        for name in ["", "x", "1", "x-1", "1-x", "-"] {
            assert!(!is_orphaned(name), "{name}");
        }
        assert!(!is_orphaned(&format!("{}-0", process_identity())));
        assert!(is_orphaned("4000000-1-0"));
    }
}
