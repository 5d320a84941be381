//! Requests and answers of the API, one file per noun.

pub(crate) mod agent;
pub(crate) mod approval;
pub(crate) mod delivery;
pub(crate) mod event;
pub(crate) mod explanation;
pub(crate) mod health;
pub(crate) mod input;
pub(crate) mod operation;
pub(crate) mod run;
pub(crate) mod session;
pub(crate) mod task;
pub(crate) mod token;
pub(crate) mod tool;
pub(crate) mod webhook;
