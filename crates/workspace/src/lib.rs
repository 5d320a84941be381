//! Workspaces: directories for tools and programs.
//!
//! A [`WorkspaceRoot`] confines paths to a directory: neither `..`, nor a link, nor a directory that is replaced by a
//! link during a call can leave it. [`walk`] visits the files below a directory, except those that `.gitignore` and
//! `.ignore` exclude. [`conversation::ConversationWorkspaces`] manages one directory per conversation and restores it
//! from a snapshot after a crash.
//!
//! Invariants: no operation follows a symbolic link out of a workspace. Every resource has a named limit ([`limits`]).

pub mod conversation;
mod error;
pub mod limits;
mod root;
pub mod text;
pub mod walk;

pub use error::{Error, Result};
pub use root::{
    Access, DirectoryEntries, DirectoryEntry, EditMarkers, OpenedFile, Replacement, WorkspacePath,
    WorkspaceRoot, check_cancelled, excerpt, kind_name, open_in,
};
