//! A root file system from the programs and libraries of this machine, read-only.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::linux::layout::{SYSTEM_DIRS, SYSTEM_FILES};

/// A directory with mount points for the directories of the machine.
#[derive(Debug)]
pub(super) struct HostRootfs {
    root: PathBuf,
    /// Bind mounts: path on the machine and path in the container.
    binds: Vec<(PathBuf, PathBuf)>,
}

impl HostRootfs {
    /// Creates a directory with the mount points, below `scratch`.
    pub(super) fn create_mount_points(scratch: &Path) -> io::Result<Self> {
        let root = scratch.join("machine");
        for dir in ["proc", "sys", "dev", "tmp", "etc", "run", "workspace"] {
            fs::create_dir_all(root.join(dir))?;
        }
        let mut binds = Vec::new();
        for dir in SYSTEM_DIRS.map(Path::new) {
            match fs::read_link(dir) {
                Ok(target) => std::os::unix::fs::symlink(target, inside(&root, dir))?,
                Err(_) if dir.is_dir() => {
                    fs::create_dir_all(inside(&root, dir))?;
                    binds.push((dir.to_owned(), dir.to_owned()));
                }
                Err(_) => {}
            }
        }
        for file in SYSTEM_FILES.map(Path::new) {
            let Ok(real) = file.canonicalize() else { continue };
            let mount_point = inside(&root, file);
            if let Some(parent) = mount_point.parent() {
                fs::create_dir_all(parent)?;
            }
            match real.is_dir() {
                true => fs::create_dir_all(&mount_point)?,
                false => fs::write(&mount_point, "")?,
            }
            binds.push((real, file.to_owned()));
        }
        Ok(Self { root, binds })
    }

    /// Returns the directory with the mount points.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    /// Returns the bind mounts: the directory of the machine and its path in the container.
    pub(super) fn binds(&self) -> &[(PathBuf, PathBuf)] {
        &self.binds
    }

    /// Returns the bind mounts as arguments of an engine.
    pub(super) fn volumes(&self) -> impl Iterator<Item = String> + '_ {
        let volume = |(from, to): &(PathBuf, PathBuf)| {
            format!("--volume={}:{}:ro,nosuid,nodev", from.display(), to.display())
        };
        self.binds.iter().map(volume)
    }
}

/// Returns where an absolute path of the container is in `root`.
fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
