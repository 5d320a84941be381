//! Tools of a server: their list, calls and results.

pub(crate) mod call;
pub(crate) mod list;
pub(crate) mod name;
pub(crate) mod result;
pub(crate) mod tool;
