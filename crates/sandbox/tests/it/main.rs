//! Sandboxes with real programs in them.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test fails by panicking, also in what tests share, and says which backends it has tried and which are missing"
)]

mod container;
mod egress;
mod engines;
mod escape;
mod launcher;
mod leftovers;
mod process;
mod stage;
mod warm;
