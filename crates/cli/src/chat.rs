//! A conversation with an agent: its runs, and their output without the terminal interface.

pub(crate) mod conversation;
pub(crate) mod event_assembler;
pub(crate) mod line_mode;
pub(crate) mod run_stream;
pub(crate) mod setup;
