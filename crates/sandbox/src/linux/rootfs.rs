//! The root file system of sandboxes: mount points, the symbolic links of the system, and an `/etc` of copies, in one
//! directory that is mounted read-only. Creating these for every job takes longer than starting a program.
//!
//! Invariant: the root contains only paths of the system and, below the entries of [`SYSTEM_FILES`], those files of
//! `/etc` that every user can read. After a change of a source file, the next job uses new copies; running jobs keep
//! theirs.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use crate::limits::ETC_BYTES_MAX;
use crate::linux::layout::{SYSTEM_DIRS, SYSTEM_FILES};
use crate::linux::scratch_dir::ScratchDir;

/// Directory of the copied files.
const SOURCE: &str = "/etc";
/// Links into this directory stay links, because it exists in every sandbox.
const SYSTEM: &str = "/usr";
/// Permission bits of a file that every user can read, and of a directory that every user can list.
const WORLD_READABLE: u32 = 0o004;
const WORLD_LISTABLE: u32 = 0o005;

/// Mount points of a sandbox.
const MOUNT_POINTS: [&str; 6] = ["dev", "etc", "proc", "run", "tmp", "workspace"];

/// Creates a new root when the source files change.
#[derive(Debug)]
pub(crate) struct RootfsCache {
    scratch: ScratchDir,
    last: Mutex<(Arc<Rootfs>, u64)>,
}

/// One root. It is removed when the last job that uses it ends.
#[derive(Debug)]
pub(crate) struct Rootfs {
    dir: PathBuf,
    fingerprints: FileFingerprints,
    /// Keeps the parent directory alive.
    _scratch: ScratchDir,
}

/// Inode and modification times of the source files, to detect changes.
type FileFingerprints = Vec<Option<[i64; 4]>>;

impl RootfsCache {
    /// Creates the first root in a private directory.
    pub(crate) fn open(scratch: ScratchDir) -> io::Result<Self> {
        let first = Arc::new(Rootfs::create(&scratch, 0)?);
        Ok(Self { scratch, last: Mutex::new((first, 0)) })
    }

    /// Returns the root for a new job. Creates a new one if a source file has changed.
    pub(crate) fn current(&self) -> io::Result<Arc<Rootfs>> {
        let mut last = self.last.lock();
        if last.0.fingerprints != fingerprints() {
            let number = last.1 + 1;
            *last = (Arc::new(Rootfs::create(&self.scratch, number)?), number);
        }
        Ok(Arc::clone(&last.0))
    }
}

impl Rootfs {
    /// Creates a root with the mount points and a copy of the system's configuration files.
    fn create(scratch: &ScratchDir, number: u64) -> io::Result<Self> {
        // Recorded before copying, so that the next job detects a concurrent change.
        let fingerprints = fingerprints();
        let dir = scratch.path().join(format!("root-{number}"));
        let rootfs = Self { dir, fingerprints, _scratch: scratch.clone() };
        rootfs.create_mount_points()?;
        let etc = rootfs.dir.join("etc");
        let mut budget = ETC_BYTES_MAX;
        for source in SYSTEM_FILES.map(Path::new) {
            let Ok(relative) = source.strip_prefix(SOURCE) else { continue };
            let target = etc.join(relative);
            fs::create_dir_all(target.parent().unwrap_or(&etc))?;
            match (fs::symlink_metadata(source), source.canonicalize()) {
                (Ok(kind), Ok(canonical)) if kind.is_symlink() && canonical.starts_with(SYSTEM) => {
                    symlink(canonical, target)?;
                }
                (Ok(_), Ok(canonical)) => copy(&canonical, &target, &mut budget)?,
                // A path may not exist on this machine, or be a broken link.
                _ => {}
            }
        }
        Ok(rootfs)
    }

    /// Creates the mount points and the links of the system.
    fn create_mount_points(&self) -> io::Result<()> {
        fs::create_dir(&self.dir)?;
        for mount_point in MOUNT_POINTS {
            fs::create_dir(self.dir.join(mount_point))?;
        }
        for dir in SYSTEM_DIRS.map(Path::new) {
            let mount_point = self.dir.join(dir.strip_prefix("/").unwrap_or(dir));
            match fs::read_link(dir) {
                Ok(target) => symlink(target, mount_point)?,
                Err(_) if dir.is_dir() => fs::create_dir(mount_point)?,
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Returns the directory of the root.
    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Rootfs {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            tracing::debug!(%error, "cannot remove a root of sandboxes");
        }
    }
}

/// Returns the current fingerprints of the source files.
fn fingerprints() -> FileFingerprints {
    let of = |metadata: Metadata| {
        [metadata.ino().cast_signed(), metadata.ctime(), metadata.ctime_nsec(), metadata.mtime()]
    };
    SYSTEM_FILES.map(|path| fs::metadata(path).ok().map(of)).to_vec()
}

/// Copies a file or a directory tree. Skips entries that not every user can read, and special files.
fn copy(source: &Path, target: &Path, budget: &mut u64) -> io::Result<()> {
    let Ok(kind) = fs::symlink_metadata(source) else { return Ok(()) };
    if kind.is_symlink() {
        // Copied as a link: the sandbox resolves it.
        return symlink(fs::read_link(source)?, target);
    }
    if kind.is_dir() && kind.mode() & WORLD_LISTABLE == WORLD_LISTABLE {
        fs::create_dir(target)?;
        for entry in fs::read_dir(source)?.filter_map(Result::ok) {
            copy(&entry.path(), &target.join(entry.file_name()), budget)?;
        }
    } else if kind.is_file() && kind.mode() & WORLD_READABLE != 0 {
        match budget.checked_sub(kind.len()) {
            Some(left) => {
                *budget = left;
                if let Err(error) = fs::copy(source, target) {
                    fs::remove_file(target).unwrap_or_default();
                    // The file may be replaced at this moment. The next job copies the new one.
                    return if error.kind() == io::ErrorKind::NotFound {
                        Ok(())
                    } else {
                        Err(error)
                    };
                }
            }
            None => {
                tracing::warn!(file = %source.display(), "file too large for the /etc of sandboxes");
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn there_is_what_is_named_and_nothing_else() {
        let parent = tempfile::tempdir().unwrap();
        let scratch = ScratchDir::open_in(parent.path()).unwrap();
        let roots = RootfsCache::open(scratch).unwrap();
        let root = roots.current().unwrap();
        let etc = root.path().join("etc");
        let own = fs::read(etc.join("passwd")).unwrap();
        assert_eq!(own, fs::read("/etc/passwd").unwrap());
        for entry in fs::read_dir(&etc).unwrap().flatten() {
            let source = Path::new(SOURCE).join(entry.file_name());
            assert!(SYSTEM_FILES.iter().any(|named| Path::new(named).starts_with(&source)));
        }
        assert!(!etc.join("shadow").exists() && !etc.join("hostname").exists());
        // Without a change, the next job uses the same copies.
        assert_eq!(roots.current().unwrap().path(), root.path());
        // Apart from `etc`, the root contains only empty directories and links.
        for entry in fs::read_dir(root.path()).unwrap().flatten() {
            let is_link = entry.file_type().unwrap().is_symlink();
            let is_empty = || fs::read_dir(entry.path()).unwrap().next().is_none();
            assert!(is_link || entry.file_name() == "etc" || is_empty(), "{entry:?}");
        }
        // A root keeps its parent directory alive.
        let dir = root.path().to_owned();
        drop(roots);
        assert!(dir.exists());
        drop(root);
        assert!(fs::read_dir(parent.path()).unwrap().next().is_none());
    }

    #[test]
    fn what_not_everybody_may_read_is_left_out_and_links_stay_links() {
        let parent = tempfile::tempdir().unwrap();
        let (source, target) = (parent.path().join("from"), parent.path().join("to"));
        fs::create_dir_all(source.join("closed")).unwrap();
        for (name, mode) in [("open", 0o644), ("secret", 0o640), ("closed/file", 0o644)] {
            fs::write(source.join(name), name).unwrap();
            fs::set_permissions(source.join(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        fs::set_permissions(&source, fs::Permissions::from_mode(0o755)).unwrap();
        fs::set_permissions(source.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
        symlink("/etc/shadow", source.join("link")).unwrap();
        copy(&source, &target, &mut 100).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(&target).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["link", "open"]);
        assert_eq!(fs::read_link(target.join("link")).unwrap(), Path::new("/etc/shadow"));
        // A file that exceeds the budget is skipped completely.
        let full = parent.path().join("full");
        copy(&source, &full, &mut 3).unwrap();
        assert!(!full.join("open").exists());
    }
}
