//! Reads of the engine: pages and views of tasks, runs, sessions and their logs.

pub(crate) mod conversation;
pub(crate) mod event_log;
pub(crate) mod history;
pub(crate) mod interaction;
pub(crate) mod list;
pub(crate) mod session;
pub(crate) mod task_log;
pub(crate) mod view;
