//! Handlers, one file per noun. A handler reads its arguments, calls the engine and converts the result.
//!
//! Invariant: handlers use the engine and the types of [`provost_api`]. They contain neither SQL nor socket code.

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
