//! The agent through its public door. Tests of a numbered statement carry its number.

#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, also in what tests share"
)]

mod approvals;
mod arriving;
mod children;
mod contexts;
mod continuing;
mod governed;
mod guarantees;
mod hooks_children;
mod hooks_lifecycle;
mod hooks_model;
mod hooks_tool;
mod limits;
mod looping;
mod outputs;
mod sessions;
mod shared_state;
mod steering;
mod support;
mod teams;
mod toolsets;
mod tracing_spans;
