//! Views of a run and of a session for a program in the same process.

pub(crate) mod conversation;
pub(crate) mod view;
