//! A root made of the programs and libraries of this machine, to read.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::linux::layout::{SYSTEM_DIRS, SYSTEM_FILES};

/// A directory with places for what is bound into it.
#[derive(Debug)]
pub(super) struct Machine {
    root: PathBuf,
    /// What is bound, by its real place, and where.
    binds: Vec<(PathBuf, PathBuf)>,
}

impl Machine {
    /// Makes the places.
    pub(super) fn lay_out(scratch: &Path) -> io::Result<Self> {
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
            let place = inside(&root, file);
            if let Some(parent) = place.parent() {
                fs::create_dir_all(parent)?;
            }
            match real.is_dir() {
                true => fs::create_dir_all(&place)?,
                false => fs::write(&place, "")?,
            }
            binds.push((real, file.to_owned()));
        }
        Ok(Self { root, binds })
    }

    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn binds(&self) -> &[(PathBuf, PathBuf)] {
        &self.binds
    }

    /// The same in the words of engines.
    pub(super) fn volumes(&self) -> impl Iterator<Item = String> + '_ {
        let told = |(from, to): &(PathBuf, PathBuf)| {
            format!("--volume={}:{}:ro,nosuid,nodev", from.display(), to.display())
        };
        self.binds.iter().map(told)
    }
}

fn inside(root: &Path, path: &Path) -> PathBuf {
    root.join(path.strip_prefix("/").unwrap_or(path))
}
