//! Code that does the same work without Provost.

pub(crate) mod baseline_journal;
pub(crate) mod baseline_loop;
pub(crate) mod sqlite;
