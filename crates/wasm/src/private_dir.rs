//! Directories and files that nobody else may use.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use provost_core::Env;

use crate::error::WasmError;

const DIR_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// What others could do with a file or a directory.
const OTHERS: u32 = 0o077;

/// Makes a directory, or looks whether the one that is there is ours alone.
pub(crate) fn dir(path: &Path) -> Result<(), WasmError> {
    let refused = |why: String| WasmError::Cache { path: path.display().to_string(), why };
    let made = DirBuilder::new().recursive(true).mode(DIR_MODE).create(path);
    made.map_err(|error| refused(error.to_string()))?;
    let found = fs::symlink_metadata(path).map_err(|error| refused(error.to_string()))?;
    if !found.is_dir() {
        return Err(refused("it is no directory".to_owned()));
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(refused("it belongs to somebody else".to_owned()));
    }
    match found.mode() & OTHERS {
        0 => Ok(()),
        _ => Err(refused("others may use it".to_owned())),
    }
}

/// Reads a file that is ours alone: no link, nobody else's, nothing that others could have written.
pub(crate) fn read(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    let found = file.metadata()?;
    let is_ours = found.is_file()
        && found.uid() == rustix::process::geteuid().as_raw()
        && found.mode() & OTHERS == 0;
    if !is_ours {
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, "others may write it"));
    }
    bounded(file, bytes_max)
}

/// Reads a whole file that is not larger than it may be.
pub(crate) fn bounded(file: File, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let size = file.metadata()?.len().min(bytes_max);
    bytes.reserve(usize::try_from(size).unwrap_or_default());
    let read = file.take(bytes_max.saturating_add(1)).read_to_end(&mut bytes)?;
    match read as u64 > bytes_max {
        true => Err(io::Error::new(io::ErrorKind::FileTooLarge, "it is too large")),
        false => Ok(bytes),
    }
}

/// Puts a file in place as a whole: whoever reads sees the old one or the new one.
pub(crate) fn put(path: &Path, bytes: &[u8], env: &Env) -> io::Result<()> {
    let beside = path.with_extension(format!("{:016x}.new", env.random()));
    let written = write_new(&beside, bytes).and_then(|()| fs::rename(&beside, path));
    if written.is_err() {
        fs::remove_file(&beside).unwrap_or_default();
    }
    written
}

/// Puts a file in place unless there is one already.
pub(crate) fn put_first(path: &Path, bytes: &[u8], env: &Env) -> io::Result<()> {
    let beside = path.with_extension(format!("{:016x}.new", env.random()));
    let written = write_new(&beside, bytes).and_then(|()| fs::hard_link(&beside, path));
    fs::remove_file(&beside).unwrap_or_default();
    match written {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        written => written,
    }
}

fn write_new(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    file.write_all(bytes)
}
