//! Workspaces: directories that tools and programs work in.
//!
//! A [`Workspace`] is a directory that no path leaves: not by `..`, not by a link, not by a directory that becomes a link while a
//! call is under way. [`walk`] visits the files below it, without those that `.gitignore` and `.ignore` leave out.
//! [`conversation::Workspaces`] keeps one directory for each conversation and restores it from a snapshot after a crash.
//!
//! Invariants: nothing here follows a symbolic link out of a workspace; every amount has a bound with a name ([`limits`]).

pub mod conversation;
mod error;
pub mod limits;
mod root;
pub mod text;
pub mod walk;

pub use error::{Error, Result};
pub use root::{
    Access, Entries, Entry, InnerPath, Marks, Opened, Replacement, Workspace, check_stopped,
    kind_name, open_in, shortened,
};
