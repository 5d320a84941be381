//! Workspaces of conversations.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking, also in what tests share")]

mod conversation;
