//! Requests and responses of the API, one file per noun.

pub(crate) mod agent;
pub(crate) mod approval;
pub(crate) mod budget;
pub(crate) mod delivery;
pub(crate) mod event;
pub(crate) mod execution_class;
pub(crate) mod explanation;
pub(crate) mod input;
pub(crate) mod run;
pub(crate) mod schedule;
pub(crate) mod server;
pub(crate) mod session;
pub(crate) mod task;
pub(crate) mod token;
pub(crate) mod tool;
pub(crate) mod webhook;
