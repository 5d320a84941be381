//! Every bound of a workspace, with its name.

use std::time::Duration;

/// Bytes of a path.
pub const PATH_BYTES_MAX: usize = 4_096;
/// Bytes of one name in a path, as file systems have it.
pub const NAME_BYTES_MAX: usize = 255;
/// Names in one path.
pub const PATH_NAMES_MAX: usize = 128;

/// Entries of one directory that are looked at.
pub const DIRECTORY_ENTRIES_MAX: usize = 100_000;
/// Entries that one walk through directories looks at.
pub const WALK_ENTRIES_MAX: usize = 500_000;
/// Directories inside each other that a walk enters; each holds one descriptor.
pub const WALK_DEPTH_MAX: usize = 64;
/// Bytes of a file with rules about what to ignore.
pub const IGNORE_FILE_BYTES_MAX: u64 = 256 * 1024;
/// Bytes of a glob.
pub const GLOB_BYTES_MAX: usize = 512;

/// Time without a call after which the directory of a conversation is taken away; its snapshot stays.
pub const WORKSPACE_IDLE_DEFAULT: Duration = Duration::from_secs(15 * 60);
/// Bytes of one workspace of a conversation that are kept.
pub const WORKSPACE_BYTES_DEFAULT: u64 = 256 * 1024 * 1024;
/// Files and directories of one workspace of a conversation that are kept.
pub const WORKSPACE_FILES_DEFAULT: usize = 20_000;
/// Turns of one workspace of which the last snapshot is kept, and calls of the last turn.
pub const WORKSPACE_SNAPSHOTS_MAX: usize = 16;
/// Directories inside each other that are kept; each holds one descriptor.
pub(crate) const WORKSPACE_DEPTH_MAX: usize = 64;
/// Processes that may keep workspaces of conversations in one directory.
pub(crate) const WORKSPACE_SLOTS_MAX: usize = 64;
