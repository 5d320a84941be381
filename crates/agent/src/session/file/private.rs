//! Files and directories that only their owner can read, since a conversation can hold anything.
//!
//! Where there are no Unix modes, the permissions of the parent directory apply.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

/// The mode of a file.
#[cfg(unix)]
const FILE_MODE: u32 = 0o600;
/// The mode of a directory.
#[cfg(unix)]
const DIR_MODE: u32 = 0o700;

/// Opens a file for its owner alone, also if it was made with a wider mode, by a copy or an older program.
pub(super) fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, FILE_MODE);
    let file = options.open(path)?;
    // A file system without modes refuses; then there is nothing to narrow, and nothing is worse than before.
    #[cfg(unix)]
    drop(narrow(&file));
    Ok(file)
}

/// Makes a directory and those above it that are missing. Directories that exist stay as they are.
pub(super) fn create_dir_all(path: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, DIR_MODE);
    builder.create(path)
}

#[cfg(unix)]
fn narrow(file: &File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt as _;

    let mode = file.metadata()?.permissions().mode();
    if mode & 0o077 == 0 {
        return Ok(());
    }
    file.set_permissions(fs::Permissions::from_mode(FILE_MODE))
}
