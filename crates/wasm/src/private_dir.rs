//! Directories and files that only this user can access.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use provost_core::Env;

use crate::error::WasmError;

const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// Permission bits of the group and of other users.
const GROUP_AND_OTHERS: u32 = 0o077;

/// Creates a directory that only its owner can access. Returns an error if it exists and belongs to another user or
/// other users can access it.
pub(crate) fn create_dir(path: &Path) -> Result<(), WasmError> {
    let refused = |reason: String| WasmError::Cache { path: path.display().to_string(), reason };
    let created = DirBuilder::new().recursive(true).mode(DIR_MODE).create(path);
    created.map_err(|error| refused(error.to_string()))?;
    let metadata = fs::symlink_metadata(path).map_err(|error| refused(error.to_string()))?;
    if !metadata.is_dir() {
        return Err(refused("it is not a directory".to_owned()));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(refused("it belongs to another user".to_owned()));
    }
    match metadata.mode() & GROUP_AND_OTHERS {
        0 => Ok(()),
        _ => Err(refused("other users can access it".to_owned())),
    }
}

/// Reads a private file. Returns an error for a link, a file of another user, a file that other users can access, or a
/// file that is too large.
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let metadata = file.metadata()?;
    let is_ours = metadata.is_file()
        && metadata.uid() == rustix::process::geteuid().as_raw()
        && metadata.mode() & GROUP_AND_OTHERS == 0;
    if !is_ours {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "the file is not private"));
    }
    read_bounded(file, bytes_max)
}

/// Reads a file. Returns an error if it has more than `bytes_max` bytes.
pub(crate) fn read_bounded(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let size = file.metadata()?.len().min(bytes_max);
    bytes.reserve(usize::try_from(size).unwrap_or_default());
    let read = file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    match read as u64 > bytes_max {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, "the file is too large")),
        false => Ok(bytes),
    }
}

/// Replaces a file atomically: a reader sees the old content or the new one.
pub(crate) fn write_atomic(path: &Path, bytes: &[u8], env: &Env) -> io::Result<()> {
    let temp = path.with_extension(format!("{:016x}.new", env.random()));
    let written = write_new(&temp, bytes).and_then(|()| fs::rename(&temp, path));
    if written.is_err() {
        fs::remove_file(&temp).unwrap_or_default();
    }
    written
}

/// Creates a file atomically. Does nothing if the file exists.
pub(crate) fn create_once(path: &Path, bytes: &[u8], env: &Env) -> io::Result<()> {
    let temp = path.with_extension(format!("{:016x}.new", env.random()));
    let written = write_new(&temp, bytes).and_then(|()| fs::hard_link(&temp, path));
    fs::remove_file(&temp).unwrap_or_default();
    match written {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        written => written,
    }
}

/// Writes a new private file. Returns an error if it exists.
fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    file.write_all(bytes)
}
