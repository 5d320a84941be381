//! Records of calls: audit, usage and the sinks that take them.

pub(crate) mod audit;
pub(crate) mod sink;
pub(crate) mod usage;
