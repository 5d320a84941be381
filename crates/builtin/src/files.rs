//! Tools for the files of a workspace.

pub(crate) mod edit;
pub(crate) mod list;
pub(crate) mod read;
pub(crate) mod search;
pub(crate) mod write;
