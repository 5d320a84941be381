//! The server as its callers see it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod agents;
mod approvals;
mod approvers;
mod ask;
mod auth;
mod bad_input;
mod connections;
mod crowd;
mod house;
mod limits;
mod metrics;
mod net;
mod openapi;
mod operation;

mod runs;
mod serve;
mod sessions;
mod stage;
mod streams;
mod tasks;
mod tools;
mod viewers;
mod webhooks;
mod whole;
