//! The root of sandboxes that have one of their own: places for what is bound into it, the links of the system, and an `/etc`
//! of copies, in one directory that is bound as a whole, to read. To make each of these anew takes longer than to start a
//! program.
//!
//! Invariant: nothing is in it but names of the system, and of `/etc` what everybody on this machine may read, of the places
//! that [`SYSTEM_FILES`] names. When one of these has changed, the next job gets new copies; those that run keep theirs.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use crate::limits::ETC_BYTES_MAX;
use crate::linux::layout::{SYSTEM_DIRS, SYSTEM_FILES};
use crate::linux::scratch_dir::Scratch;

/// Where all of it comes from.
const SOURCE: &str = "/etc";
/// Links may lead there: it is in every sandbox.
const SYSTEM: &str = "/usr";
/// Everybody may read it; everybody may look for names in it, too.
const READ_BY_ALL: u32 = 0o004;
const ENTERED_BY_ALL: u32 = 0o005;

/// What is mounted into every sandbox, or into some.
const PLACES: [&str; 6] = ["dev", "etc", "proc", "run", "tmp", "workspace"];

/// Keeps the copies new.
#[derive(Debug)]
pub(crate) struct Roots {
    scratch: Scratch,
    last: Mutex<(Arc<Root>, u64)>,
}

/// One root. It goes with the last job that has it.
#[derive(Debug)]
pub(crate) struct Root {
    dir: PathBuf,
    stamp: Stamp,
    /// What it is in stays as long as it does.
    _scratch: Scratch,
}

/// What tells that something has changed: which file it is and when it, or what is in it, changed.
type Stamp = Vec<Option<[i64; 4]>>;

impl Roots {
    /// Makes the first one below a private directory.
    pub(crate) fn open(scratch: Scratch) -> io::Result<Self> {
        let first = Arc::new(Root::make(&scratch, 0)?);
        Ok(Self { scratch, last: Mutex::new((first, 0)) })
    }

    /// The root for a job that starts now.
    pub(crate) fn current(&self) -> io::Result<Arc<Root>> {
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.0.stamp != stamp() {
            let number = last.1 + 1;
            *last = (Arc::new(Root::make(&self.scratch, number)?), number);
        }
        Ok(Arc::clone(&last.0))
    }
}

impl Root {
    fn make(scratch: &Scratch, number: u64) -> io::Result<Self> {
        // Taken first: what changes meanwhile is seen by the next job.
        let stamp = stamp();
        let dir = scratch.path().join(format!("root-{number}"));
        let made = Self { dir, stamp, _scratch: scratch.clone() };
        made.lay_out()?;
        let etc = made.dir.join("etc");
        let mut room = ETC_BYTES_MAX;
        for source in SYSTEM_FILES.map(Path::new) {
            let Ok(below) = source.strip_prefix(SOURCE) else { continue };
            let target = etc.join(below);
            fs::create_dir_all(target.parent().unwrap_or(&etc))?;
            match (fs::symlink_metadata(source), source.canonicalize()) {
                (Ok(kind), Ok(real)) if kind.is_symlink() && real.starts_with(SYSTEM) => {
                    symlink(real, target)?;
                }
                (Ok(_), Ok(real)) => copy(&real, &target, &mut room)?,
                // Not every machine has everything, and a link may lead nowhere.
                _ => {}
            }
        }
        Ok(made)
    }

    /// Makes the places for what is mounted, and the links of the system.
    fn lay_out(&self) -> io::Result<()> {
        fs::create_dir(&self.dir)?;
        for place in PLACES {
            fs::create_dir(self.dir.join(place))?;
        }
        for dir in SYSTEM_DIRS.map(Path::new) {
            let place = self.dir.join(dir.strip_prefix("/").unwrap_or(dir));
            match fs::read_link(dir) {
                Ok(target) => symlink(target, place)?,
                Err(_) if dir.is_dir() => fs::create_dir(place)?,
                Err(_) => {}
            }
        }
        Ok(())
    }

    pub(crate) fn path(&self) -> &Path {
        &self.dir
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        if let Err(error) = fs::remove_dir_all(&self.dir) {
            tracing::debug!(%error, "a root of sandboxes stays");
        }
    }
}

fn stamp() -> Stamp {
    let of = |it: Metadata| [it.ino().cast_signed(), it.ctime(), it.ctime_nsec(), it.mtime()];
    SYSTEM_FILES.map(|path| fs::metadata(path).ok().map(of)).to_vec()
}

/// Copies a file, or a directory with all that is in it. What not everybody may read is left out, and so is what is no file.
fn copy(source: &Path, target: &Path, room: &mut u64) -> io::Result<()> {
    let Ok(kind) = fs::symlink_metadata(source) else { return Ok(()) };
    if kind.is_symlink() {
        // As it is: where it leads inside is for the sandbox to say.
        return symlink(fs::read_link(source)?, target);
    }
    if kind.is_dir() && kind.mode() & ENTERED_BY_ALL == ENTERED_BY_ALL {
        fs::create_dir(target)?;
        for entry in fs::read_dir(source)?.filter_map(Result::ok) {
            copy(&entry.path(), &target.join(entry.file_name()), room)?;
        }
    } else if kind.is_file() && kind.mode() & READ_BY_ALL != 0 {
        match room.checked_sub(kind.len()) {
            Some(left) => {
                *room = left;
                if let Err(error) = fs::copy(source, target) {
                    fs::remove_file(target).unwrap_or_default();
                    // Somebody may be about to put another one in its place: then the next job has that.
                    return if error.kind() == io::ErrorKind::NotFound {
                        Ok(())
                    } else {
                        Err(error)
                    };
                }
            }
            None => {
                tracing::warn!(file = %source.display(), "too large for the /etc of sandboxes");
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
        let scratch = Scratch::open_in(parent.path()).unwrap();
        let roots = Roots::open(scratch).unwrap();
        let root = roots.current().unwrap();
        let etc = root.path().join("etc");
        let own = fs::read(etc.join("passwd")).unwrap();
        assert_eq!(own, fs::read("/etc/passwd").unwrap());
        for entry in fs::read_dir(&etc).unwrap().flatten() {
            let source = Path::new(SOURCE).join(entry.file_name());
            assert!(SYSTEM_FILES.iter().any(|named| Path::new(named).starts_with(&source)));
        }
        assert!(!etc.join("shadow").exists() && !etc.join("hostname").exists());
        // Nothing has changed: the same copies are good for the next job.
        assert_eq!(roots.current().unwrap().path(), root.path());
        // Beside it there are only empty places, and links of the system.
        for entry in fs::read_dir(root.path()).unwrap().flatten() {
            let is_link = entry.file_type().unwrap().is_symlink();
            let is_empty = || fs::read_dir(entry.path()).unwrap().next().is_none();
            assert!(is_link || entry.file_name() == "etc" || is_empty(), "{entry:?}");
        }
        // Whoever has a root has all that it is in.
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
        // Where there is no room nothing is half there.
        let full = parent.path().join("full");
        copy(&source, &full, &mut 3).unwrap();
        assert!(!full.join("open").exists());
    }
}
