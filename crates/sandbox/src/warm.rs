//! Sandboxes and processes that are started before a job needs them.

pub(crate) mod fork_server;
pub(crate) mod pool;
pub(crate) mod spawn_thread;
