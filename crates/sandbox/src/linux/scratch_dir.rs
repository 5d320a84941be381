//! The directory in which this process keeps what its sandboxes need, and the end of those that others left.
//!
//! Its name holds the number and the start of the process that made it. Whoever opens one looks for those of processes that are
//! no more and takes them away, with their control groups.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::linux::process_tree;

/// What the names of these directories begin with.
const PREFIX: &str = "provost-sandbox-";
/// Tries to find a name that nobody has.
const TRIES_MAX: u32 = 100;
/// The number of the next directory. None is given twice: whoever still clears one up would take away the other of its name.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A private directory of this process. It goes with its last clone.
#[derive(Debug, Clone)]
pub struct Scratch(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    dir: PathBuf,
    /// Its owner and its number.
    name: String,
    next: AtomicU64,
}

impl Scratch {
    /// Makes one in the directory for temporary files.
    pub fn open() -> io::Result<Self> {
        Self::open_in(&std::env::temp_dir())
    }

    /// Makes one somewhere, and takes away what processes that are no more have left there.
    pub fn open_in(parent: &Path) -> io::Result<Self> {
        sweep(parent);
        let owner = owner();
        for _ in 0..TRIES_MAX {
            let name = format!("{owner}-{}", NEXT.fetch_add(1, Ordering::Relaxed));
            let dir = parent.join(format!("{PREFIX}{name}"));
            match DirBuilder::new().mode(0o700).create(&dir) {
                Ok(()) => {
                    let dir = dir.canonicalize()?;
                    return Ok(Self(Arc::new(Inner { dir, name, next: AtomicU64::new(0) })));
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
        Err(io::ErrorKind::AlreadyExists.into())
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0.dir
    }

    /// A directory for one job.
    pub(crate) fn job(&self) -> io::Result<JobDir> {
        let number = self.0.next.fetch_add(1, Ordering::Relaxed);
        let dir = self.0.dir.join(number.to_string());
        DirBuilder::new().mode(0o700).create(&dir)?;
        let name = format!("{}-{number}", self.0.name);
        Ok(JobDir { dir, name, _scratch: self.clone() })
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            tracing::debug!(%error, "the directory of the sandboxes stays");
        }
    }
}

/// The directory of one job. It goes with the job.
#[derive(Debug)]
pub(crate) struct JobDir {
    dir: PathBuf,
    name: String,
    _scratch: Scratch,
}

impl JobDir {
    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }

    /// What no other job on this machine is called.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl JobDir {
    /// True if there is next to nothing in it: no directory that has anything in it.
    pub(crate) fn is_little(&self) -> bool {
        const LITTLE: usize = 8;
        let Ok(entries) = fs::read_dir(&self.dir) else { return true };
        let is_light = |entry: io::Result<fs::DirEntry>| {
            entry.is_ok_and(|entry| match entry.file_type() {
                Ok(kind) if kind.is_dir() => fs::remove_dir(entry.path()).is_ok(),
                kind => kind.is_ok(),
            })
        };
        let mut entries = entries.take(LITTLE + 1).enumerate();
        entries.all(|(at, entry)| at < LITTLE && is_light(entry))
    }
}

impl Drop for JobDir {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            tracing::debug!(%error, "the directory of a job stays");
        }
    }
}

/// What names this process for ever: its number and its start.
pub(crate) fn owner() -> String {
    let pid = std::process::id();
    format!("{pid}-{}", process_tree::started(pid).unwrap_or_default())
}

/// True if a name begins with the owner of something, and that one is no more.
pub(crate) fn is_orphaned(name: &str) -> bool {
    let mut parts = name.split('-');
    let (Some(pid), Some(start)) = (parts.next(), parts.next()) else { return false };
    match (pid.parse::<u32>(), start.parse::<u64>()) {
        (Ok(pid), Ok(start)) => process_tree::started(pid) != Some(start),
        _ => false,
    }
}

fn sweep(parent: &Path) {
    let Ok(entries) = fs::read_dir(parent) else { return };
    for entry in entries.filter_map(Result::ok) {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX));
        let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if is_dir && owner.is_some_and(is_orphaned) {
            // Somebody else's cannot be removed; it is theirs to sweep.
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
        let left = parent.path().join(format!("{PREFIX}4000000-1-0"));
        let ours = parent.path().join(format!("{PREFIX}{}-x", owner()));
        let other = parent.path().join("provost-something");
        for dir in [&left, &ours, &other] {
            fs::create_dir(dir).unwrap();
        }
        fs::write(left.join("file"), b"x").unwrap();
        let scratch = Scratch::open_in(parent.path()).unwrap();
        assert!(!left.exists());
        assert!(ours.exists() && other.exists());
        let job = scratch.job().unwrap();
        let (dir, job_dir) = (scratch.path().to_owned(), job.path().to_owned());
        drop(scratch);
        assert!(job_dir.exists(), "a job keeps its directory");
        drop(job);
        assert!(!job_dir.exists() && !dir.exists());
    }

    #[test]
    fn no_name_comes_back() {
        let parent = tempfile::tempdir().unwrap();
        let first = Scratch::open_in(parent.path()).unwrap().path().to_owned();
        assert!(!first.exists());
        assert_ne!(Scratch::open_in(parent.path()).unwrap().path(), first);
    }

    #[test]
    fn names_of_others_are_left_alone() {
        for name in ["", "x", "1", "x-1", "1-x", "-"] {
            assert!(!is_orphaned(name), "{name}");
        }
        assert!(!is_orphaned(&format!("{}-0", owner())));
        assert!(is_orphaned("4000000-1-0"));
    }
}
