//! Workspaces of conversations.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, also in what tests share, and says which backends it has tried and which are missing"
)]

mod conversation;
