//! Runtimes against running servers: test servers, malicious servers and real servers.

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
mod grpc;
mod malicious_servers;
mod mcp;
mod oauth;
mod openapi;
mod sandboxes;
mod schemas;
mod support;
mod unknown_outcome;
mod webhook;
