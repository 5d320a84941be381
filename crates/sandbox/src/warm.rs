//! Sandboxes and processes that start before a command needs them.

pub(crate) mod fork_server;
pub(crate) mod pool;
pub(crate) mod spawn_thread;
