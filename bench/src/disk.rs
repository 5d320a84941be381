//! Directory of the databases: on a disk, removed afterwards.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::Result;

/// File systems in memory: `tmpfs` and `ramfs`.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// Creates a directory inside the chosen one, or beside this binary.
pub(crate) fn directory(chosen: Option<&str>) -> Result<TempDir> {
    let parent = match chosen {
        Some(chosen) => PathBuf::from(chosen),
        None => std::env::current_exe()?.parent().unwrap_or(Path::new(".")).to_owned(),
    };
    let kind = u64::try_from(rustix::fs::statfs(&parent)?.f_type).unwrap_or(0);
    if IN_MEMORY.contains(&kind) {
        let fix = "choose a directory on a disk with --dir";
        return Err(format!("{} is in memory: {fix}", parent.display()).into());
    }
    fresh(&parent)
}

/// Creates a directory inside another one.
pub(crate) fn fresh(parent: &Path) -> Result<TempDir> {
    Ok(tempfile::Builder::new().prefix("provost-bench-").tempdir_in(parent)?)
}

/// Returns a path as a command-line argument.
pub(crate) fn argument(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| format!("{} is not plain text", path.display()).into())
}
