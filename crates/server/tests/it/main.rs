//! Tests of the HTTP API.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod agents;
mod approvals;
mod approvers;
mod auth;
mod bad_input;
mod connections;
mod crowd;
mod limits;
mod local_request;
mod metrics;
mod openapi;
mod operation;
mod tcp_server;
mod test_database;

mod every_route;
mod runs;
mod serve;
mod sessions;
mod streams;
mod tasks;
mod test_app;
mod tools;
mod viewers;
mod webhooks;
