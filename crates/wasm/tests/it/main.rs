//! Real modules on the real machine: from WAT, C, AssemblyScript and Rust. What is not from WAT is built by
//! `scripts/setup wasm` and found through `PROVOST_WASM_MODULES`; where it is missing its tests are skipped.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test fails by panicking, also in what tests share"
)]

mod bounds;
mod cache;
mod component;
mod conformance;
mod host;
mod import;
mod leftovers;
mod source;
mod stage;
