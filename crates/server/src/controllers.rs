//! Handlers: one file per noun. A handler reads its arguments, asks the engine and converts the result.
//!
//! Invariant: handlers know the engine and the types of [`provost_api`], never a row's SQL or a socket.

pub(crate) mod agent;
pub(crate) mod approval;
pub(crate) mod audit;
pub(crate) mod budget;
pub(crate) mod class;
pub(crate) mod delivery;
pub(crate) mod event;
pub(crate) mod explain;
pub(crate) mod input;
pub(crate) mod meta;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod session;
pub(crate) mod stream;
pub(crate) mod task;
pub(crate) mod token;
pub(crate) mod tool;
pub(crate) mod usage;
pub(crate) mod wait;
pub(crate) mod webhook;
