//! Runtimes against running servers: ours, hostile ones, and real ones.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, also in what tests share"
)]

mod a2a;
mod backend;
mod cli;
mod conformance;
mod doubt;
mod grpc;
mod hostile;
mod mcp;
mod oauth;
mod openapi;
mod sandboxes;
mod schemas;
mod stage;
mod webhook;
