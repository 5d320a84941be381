//! What the program prints: tables, data, colours and the log.

pub(crate) mod event;
pub(crate) mod log;
pub(crate) mod output;
pub(crate) mod show;
pub(crate) mod table;
mod view;

pub(crate) use self::view::speaker;
