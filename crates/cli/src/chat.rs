//! A conversation with an agent: its runs, and showing them without a screen.

pub(crate) mod conversation;
pub(crate) mod event_fold;
pub(crate) mod plain;
pub(crate) mod run_stream;
pub(crate) mod setup;
