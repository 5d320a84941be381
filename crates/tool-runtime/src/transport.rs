//! Calls over HTTP: the client, the faults, excerpts of what the other side says.

pub(crate) mod client;
pub(crate) mod excerpt;
pub(crate) mod fault;
