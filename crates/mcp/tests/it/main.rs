//! MCP toolsets against servers that behave well, that behave badly, and that others have written.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test fails by panicking, also in what tests share, and says when it has nothing to test"
)]

mod calling;
mod lifecycle;
mod listing;
mod misbehaving_servers;
mod oauth;
mod official;
mod over_http;
mod secrets;
mod support;
