//! Tools through their only door: specifications, toolsets, the guard, and what `#[tool]` writes.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking, also in what tests share"
)]

mod confirm;
mod declared;
mod envelope;
mod facade;
mod fakes;
mod guard;
mod macro_block;
mod macro_function;
mod policy;
mod services;
mod spec;
mod support;
mod toolset;
mod values;
