//! Code that does the same work without Provost.

pub(crate) mod floor;
pub(crate) mod hand;
pub(crate) mod sqlite;
