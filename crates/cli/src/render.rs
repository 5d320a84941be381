//! Output of the program: tables, data, colors and the log.

pub(crate) mod event;
pub(crate) mod output;
pub(crate) mod printer;
pub(crate) mod redacting_log;
mod rows;
pub(crate) mod table;

pub(crate) use self::rows::speaker;
