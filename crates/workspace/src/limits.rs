//! Limits of workspaces.

use std::time::Duration;

/// Maximum length of a path, in bytes.
pub const PATH_BYTES_MAX: usize = 4_096;
/// Maximum length of a name in a path, in bytes, as in file systems.
pub const NAME_BYTES_MAX: usize = 255;
/// Maximum number of names in a path.
pub const PATH_NAMES_MAX: usize = 128;

/// Maximum number of entries of a directory that are read.
pub const DIRECTORY_ENTRIES_MAX: usize = 100_000;
/// Maximum number of entries that one walk visits.
pub const WALK_ENTRIES_MAX: usize = 500_000;
/// Maximum depth of a walk. Each level uses one descriptor.
pub const WALK_DEPTH_MAX: usize = 64;
/// Maximum size of a file with ignore rules, in bytes.
pub const IGNORE_FILE_BYTES_MAX: u64 = 256 * 1024;
/// Maximum length of a glob, in bytes.
pub const GLOB_BYTES_MAX: usize = 512;

/// Default time without use after which the directory of a conversation is removed. Its snapshot remains.
pub const WORKSPACE_IDLE_DEFAULT: Duration = Duration::from_secs(15 * 60);
/// Default maximum size of a conversation's workspace, in bytes.
pub const WORKSPACE_BYTES_DEFAULT: u64 = 256 * 1024 * 1024;
/// Default maximum number of files and directories of a conversation's workspace.
pub const WORKSPACE_FILES_DEFAULT: usize = 20_000;
/// Maximum number of turns with a stored snapshot, and of calls of the last turn.
pub const WORKSPACE_SNAPSHOTS_MAX: usize = 16;
/// Maximum depth of a stored tree. Each level uses one descriptor.
pub(crate) const WORKSPACE_DEPTH_MAX: usize = 64;
/// Maximum number of processes that share a directory of workspaces.
pub(crate) const WORKSPACE_SLOTS_MAX: usize = 64;
