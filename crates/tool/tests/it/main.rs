//! Tools through their only door: specifications, toolsets, the guard, and what `#[tool]` writes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, also in what tests share"
)]

mod confirm;
mod contract;
mod facade;
mod governance;
mod governed;
mod guard;
mod macro_block;
mod macro_function;
mod oversight;
mod spec;
mod stage;
mod toolset;
mod values;
mod workbench;
