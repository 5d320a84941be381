//! The guarantees, tried on real processes: each test is named by the number of what it holds.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, also in what tests share"
)]

mod admission;
mod approval;
mod architecture;
mod cancel;
mod child;
mod compaction;
mod disk;
mod effect;
mod event;
mod governed;
mod harness;
mod input;
mod kill;
mod lease;
mod operation;
mod plan;
mod step;
